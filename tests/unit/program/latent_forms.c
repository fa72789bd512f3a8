/* latent_forms.c - latent attention as recorded: its weights and how they are stored, and what each form
 * costs and caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "program/builder.h"

enum { H = 3, N = 6, R = 4, V = 5, C = 7 };      /* heads; unrotated and rotated lanes of a key; lanes of a
                                                    value; lanes of the latent */

static const lm_name names[] = {
    { "attn.kv", "kv" }, { "attn.keys", "keys" }, { "attn.values", "values" }, { NULL, NULL },
};

static lm_program *record(bool naive)
{
    static const char *const parts[2] = { "keys", "values" };
    lm_attention_spec        s = { .n_heads = H, .n_kv_heads = H, .k_dim = N + R, .v_dim = V, .scale = 0.5f };
    lm_builder              *b = lm_builder_new("latent", "Latent", NULL, names);
    lm_program              *p = NULL;
    lm_error                 e = { 0 };

    if (naive)
        lm_latent_naive(b);
    lm_value x = lm_embedding(b, "embed", 10, 8);
    lm_push(b, "attn", "%sAttention");
    lm_value q_nope = lm_linear(b, "q_nope", x, H * N, false), q_pe = lm_linear(b, "q_pe", x, H * R, false);
    lm_value latent = lm_linear(b, "latent", x, C, false), k_pe = lm_linear(b, "k_pe", x, R, false);
    x               = lm_latent_attention(b, "kv", parts, q_nope, q_pe, latent, k_pe, LM_NONE, &s);
    lm_pop(b);
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", x, 10, NULL), &p, &e), LM_OK);
    return p;
}

static const lm_node *node(const lm_program *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (strcmp(p->nodes[i].path, path) == 0)
            return &p->nodes[i];
    fail_msg("no operation %s", path);
    return NULL;
}

static void both_forms_read_the_same_matrix(void **state)
{
    (void)state;
    for (int naive = 0; naive < 2; naive++) {
        lm_program      *p = record(naive);
        const lm_weight *k = &p->weights[node(p, "attn.kv.k")->weights[0]],
                        *v = &p->weights[node(p, "attn.kv.v")->weights[0]];

        assert_int_equal(k->kind, LM_HEADS);
        assert_int_equal(k->dims[0], H);
        assert_int_equal(k->dims[1], naive ? N : C);     /* out, in */
        assert_int_equal(k->dims[2], naive ? C : N);
        assert_int_equal(v->dims[1], V);
        assert_int_equal(v->dims[2], C);
        assert_string_equal(k->joint.path, "attn.kv.weight");
        assert_string_equal(v->joint.path, "attn.kv.weight");
        assert_string_equal(k->joint.gguf, "kv.weight");
        assert_string_equal(k->gguf, "keys.weight");
        assert_string_equal(v->gguf, "values.weight");
        assert_true(k->joint.first == 0 && k->joint.n == N && k->joint.of == N + V);
        assert_true(v->joint.first == N && v->joint.n == V && v->joint.of == N + V);
        /* the joint tensor of a checkpoint is [n][c] per head, the separate tensor [c][n] */
        assert_true(k->joint.transposed == !naive && k->joint.alone_transposed == naive);
        assert_false(v->joint.transposed || v->joint.alone_transposed);
        assert_int_equal(k->elements + v->elements, H * (N + V) * C);
        /* the product itself is never computed */
        assert_int_equal(lm_program_value(p, "attn.kv"), LM_NONE);
        lm_program_free(p);
    }
}

static void each_form_costs_what_it_does(void **state)
{
    (void)state;
    for (int naive = 0; naive < 2; naive++) {
        lm_program *p = record(naive);
        lm_cost     k, v, scores, join;

        lm_node_cost(p, node(p, "attn.kv.k"), &k);
        lm_node_cost(p, node(p, "attn.kv.v"), &v);
        lm_node_cost(p, node(p, "attn.scores"), &scores);
        lm_node_cost(p, node(p, "attn.q"), &join);
        assert_int_equal(k.mult_adds, H * N * C);
        assert_int_equal(v.mult_adds, H * V * C);
        assert_int_equal(k.weight_elements, H * N * C);
        assert_int_equal(k.reads, naive ? C : H * N);
        assert_int_equal(scores.key_mult_adds, naive ? H * (N + R + V) : H * (C + R + C));
        assert_int_equal(join.mult_adds, 0);
        assert_int_equal(join.writes, naive ? H * (N + R) : H * (C + R));
        assert_int_equal(p->n_caches, 1);
        assert_int_equal(p->caches[0].n_kv_heads, naive ? H : 1);
        assert_int_equal(p->caches[0].k_dim, naive ? N + R : C + R);
        assert_int_equal(p->caches[0].v_in_k, !naive);
        lm_program_free(p);
    }
}

/* Both inputs of a join must divide into the same number of groups. */
static void groups_must_divide(void **state)
{
    lm_builder *b = lm_builder_new("latent", "Latent", NULL, names);
    lm_program *p = NULL;
    lm_error    e = { 0 };
    lm_value    x = lm_embedding(b, "embed", 10, 8);

    (void)state;
    x = lm_join(b, "both", x, lm_linear(b, "other", x, 6, false), 4, false);
    assert_int_equal(lm_builder_finish(b, x, &p, &e), LM_BAD_MODEL);
    assert_string_equal(e.where, "both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_read_the_same_matrix),
        cmocka_unit_test(each_form_costs_what_it_does),
        cmocka_unit_test(groups_must_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
