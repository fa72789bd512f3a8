/* adapt.c - low-rank pairs in parallel with products: which operations are inserted where, their names, and
 * what reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "program/adapt.h"
#include "program/builder.h"
#include "program/rows.h"

static const lm_name names[] = {
    { "embed", "token_embd" }, { "attn.q_proj", "blk.0.attn_q" }, { "attn.k_proj", "blk.0.attn_k" }, { "attn.o_proj", "blk.0.attn_o" },
    { "kv_b", "blk.0.attn_kv_b" }, { NULL, NULL },
};

static lm_program *finish(lm_builder *b, lm_value x)
{
    lm_program *p = NULL;
    lm_error    e = { 0 };

    assert_int_equal(lm_builder_finish(b, lm_linear(b, "head", x, 10, false), &p, &e), LM_OK);
    return p;
}

/* Record q, k and v of one input, scores, a projection and a residual. */
static lm_program *attention(bool permuted)
{
    lm_builder       *b    = lm_builder_new("small", "Small", NULL, names);
    lm_rope_spec      rope = { .dim = 4, .base = 10000, .factor = 1, .gguf_permutes = permuted };
    lm_attention_spec spec = { .n_heads = 2, .n_kv_heads = 1, .k_dim = 4, .v_dim = 4, .scale = 0.5f };

    lm_value x = lm_embedding(b, "embed", 10, 8);
    lm_push(b, "attn", "Attention");
    lm_value q = lm_linear(b, "q_proj", x, 8, false), k = lm_linear(b, "k_proj", x, 4, false),
             v = lm_linear(b, "v_proj", x, 4, true);
    q          = lm_rope(b, q, 2, &rope);
    k          = lm_rope(b, k, 1, &rope);
    lm_value o = lm_linear(b, "o_proj", lm_attention(b, q, k, v, &spec), 8, false);
    lm_pop(b);
    return finish(b, lm_add(b, x, o));
}

static uint32_t node_at(const lm_program *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (strcmp(p->nodes[i].path, path) == 0)
            return i;
    fail_msg("no operation %s", path);
    return LM_NONE;
}

static lm_program *adapted(const lm_program *p, const lm_adapt_set *sets, uint32_t n)
{
    lm_program *out = NULL;
    lm_error    e   = { 0 };

    assert_int_equal(lm_program_adapt(p, sets, n, &out, &e), LM_OK);
    return out;
}

/* Check that every value is produced before it is read, by the operation that it names. */
static void check_order(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        assert_int_equal(p->values[p->nodes[i].out].producer, i);
        for (uint32_t k = 0; k < p->nodes[i].n_in; k++)
            assert_true(p->values[p->nodes[i].in[k]].producer < i);
    }
}

static void pairs_follow_the_products_of_their_input(void **state)
{
    lm_program     *p = attention(false);
    lm_adapt_target t[] = { { lm_adapt_node(p, "attn.q_proj"), 2, 0.5f, false },
                            { lm_adapt_node(p, "attn.v_proj"), 3, 2, true },
                            { lm_adapt_node(p, "attn.o_proj"), 1, 1, false } };
    lm_program     *a = adapted(p, &(lm_adapt_set){ NULL, t, 3 }, 1);

    (void)state;
    check_order(a);
    static const char *const order[] = {
        "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.q_proj.lora_A", "attn.v_proj.lora_A", "attn.q_proj.lora_B",
        "attn.q_proj.lora_scale", "attn.q_proj.adapted", "attn.v_proj.lora_B", "attn.v_proj.lora_scale", "attn.v_proj.adapted",
        "attn.q_rope",
    };
    for (uint32_t i = 0; i < sizeof order / sizeof *order; i++)
        assert_string_equal(a->nodes[i + 1].path, order[i]);
    assert_int_equal(a->nodes[node_at(a, "attn.q_rope")].in[0],
                     a->nodes[node_at(a, "attn.q_proj.adapted")].out);
    assert_int_equal(lm_program_value(a, "attn.o_proj"), a->nodes[node_at(a, "attn.o_proj.adapted")].out);
    assert_int_equal(lm_program_value(a, "attn"), lm_program_value(a, "attn.o_proj"));
    assert_int_equal(lm_program_value(a, "attn.k_proj"), lm_program_value(p, "attn.k_proj"));
    const lm_weight *A = &a->weights[lm_program_weight(a, "attn.v_proj.lora_A.weight")];
    const lm_weight *B = &a->weights[lm_adapt_weights_of(a, "attn.v_proj", NULL).b];
    assert_true(A->dims[0] == 3 && A->dims[1] == 8 && B->dims[0] == 4 && B->dims[1] == 3);
    assert_int_equal(a->weights[lm_program_weight(a, "attn.v_proj.lora_B.bias")].elements, 4);
    assert_string_equal(a->weights[lm_program_weight(a, "attn.q_proj.lora_A.weight")].gguf,
                        "blk.0.attn_q.weight.lora_a");
    assert_int_equal(lm_program_parameters(a) - lm_program_parameters(p),
                     2 * 8 + 8 * 2 + 3 * 8 + 4 * 3 + 4 + 8 + 8);
    assert_int_equal(a->nodes[node_at(a, "attn.q_proj.lora_B")].adapter, 1);
    assert_int_equal(a->nodes[node_at(a, "attn.q_proj")].adapter, 0);
    /* a module's operations are found among its parent's even if others lie between them */
    uint32_t m = lm_program_module(a, "attn.v_proj"), op = lm_module_op(a, m, 0);
    assert_string_equal(a->nodes[op].path, "attn.v_proj");
    assert_string_equal(a->nodes[lm_module_op(a, m, op + 1)].path, "attn.v_proj.lora_A");
    lm_program_free(a);
    lm_program_free(p);
}

static void several_adapters_are_added_in_their_order(void **state)
{
    lm_program     *p = attention(false);
    lm_adapt_target t = { lm_adapt_node(p, "attn.q_proj"), 2, 1, false },
                    e = { lm_adapt_node(p, "embed"), 2, 3, false };
    lm_adapt_set    sets[] = { { "one", &t, 1 }, { "two", (lm_adapt_target[]){ t, e }, 2 } };
    lm_program     *a = adapted(p, sets, 2);

    (void)state;
    check_order(a);
    assert_int_equal(a->n_adapters, 2);
    const lm_node *last = &a->nodes[node_at(a, "attn.q_proj.adapted.two")];
    assert_int_equal(last->in[0], a->nodes[node_at(a, "attn.q_proj.adapted.one")].out);
    assert_int_equal(last->adapter, 2);
    assert_true(node_at(a, "attn.q_proj.lora_A.two") < node_at(a, "attn.q_proj.lora_B.one"));
    /* an adapted embedding: A is a table, and products read the sum */
    const lm_weight *A = &a->weights[lm_program_weight(a, "embed.lora_embedding_A.two")];
    assert_true(A->kind == LM_TABLE && A->dims[0] == 10 && A->dims[1] == 2 && A->transposed);
    assert_int_equal(a->nodes[node_at(a, "attn.q_proj")].in[0],
                     a->nodes[node_at(a, "embed.adapted.two")].out);
    assert_int_equal(lm_adapt_weights_of(a, "attn.q_proj", "three").a, LM_NONE);
    lm_program_free(a);
    lm_program_free(p);
}

/* Keys and values are lanes of one product. */
static void projections_of_latents_have_one_pair(void **state)
{
    lm_builder       *b    = lm_builder_new("small", "Small", NULL, names);
    lm_attention_spec spec = { .n_heads = 2, .k_dim = 5, .v_dim = 4, .scale = 1 };

    (void)state;
    lm_latent_naive(b);
    lm_value x = lm_embedding(b, "embed", 10, 8), q = lm_linear(b, "q", x, 6, false),
             pe = lm_linear(b, "pe", x, 4, false);
    lm_value    z = lm_linear(b, "z", x, 8, false), k = lm_linear(b, "k", x, 2, false);
    lm_program *p = finish(b, lm_latent_attention(b, "kv_b", (const char *const[]){ "k_b", "v_b" }, q, pe, z,
                                                  k, LM_NONE, &spec));
    uint32_t    n = lm_adapt_node(p, "kv_b");
    lm_adapt_shape shape;
    assert_true(lm_adapt_possible(p, n, &shape));
    assert_true(shape.in == 8 && shape.out == 2 * (3 + 4));
    assert_string_equal(shape.gguf, "blk.0.attn_kv_b.weight");
    lm_program *a = adapted(p, &(lm_adapt_set){ NULL, &(lm_adapt_target){ n, 2, 1, false }, 1 }, 1);
    check_order(a);
    const lm_node *v = &a->nodes[node_at(a, "kv_b.lora_v")];
    assert_true(v->columns.groups == 2 && v->columns.offset == 3 && a->values[v->out].width == 8);
    assert_int_equal(a->nodes[node_at(a, "kv_b.adapted_v")].in[1], v->out);
    lm_program_free(a);
    lm_program_free(p);
}

static void rows_of_gguf_files_equal_checkpoints(void **state)
{
    static const uint64_t pairs[] = { 0, 2, 1, 3, 4, 6, 5, 7 }, grouped[] = { 0, 1, 4, 5, 2, 6, 3, 7 };
    lm_gguf_rows          none = { 0 }, fused = { .groups = 2, .q = 2, .kv = 1 };

    (void)state;
    for (int permutes = 0; permutes < 2; permutes++) {
        lm_program  *p = attention(permutes);
        lm_gguf_rows q = lm_gguf_rows_of(p, lm_adapt_node(p, "attn.q_proj"), &none);
        lm_gguf_rows v = lm_gguf_rows_of(p, lm_adapt_node(p, "attn.v_proj"), &none);
        for (uint64_t i = 0; i < 8; i++) {
            assert_int_equal(lm_gguf_row_from(&q, i), permutes ? pairs[i] : i);
            assert_int_equal(lm_gguf_row_from(&v, i), i);
        }
        lm_program_free(p);
    }
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(lm_gguf_row_from(&fused, i), grouped[i]);
}

static void unsupported_adapters_are_rejected(void **state)
{
    lm_program     *p = attention(false), *a = NULL;
    lm_error        e = { 0 };
    lm_adapt_target t[] = { { node_at(p, "attn.q_rope"), 2, 1, false },
                            { lm_adapt_node(p, "attn.q_proj"), 2, 1, false } };
    lm_adapt_target zero = { t[1].node, 0, 1, false };

    (void)state;
    assert_int_equal(lm_program_adapt(p, &(lm_adapt_set){ NULL, t, 2 }, 1, &a, &e), LM_USAGE);
    assert_int_equal(lm_program_adapt(p, &(lm_adapt_set){ NULL, (lm_adapt_target[]){ t[1], t[1] }, 2 }, 1, &a,
                                      &e),
                     LM_USAGE);
    assert_string_equal(e.message, "named twice by one adapter");
    assert_int_equal(lm_program_adapt(p, &(lm_adapt_set){ NULL, &zero, 1 }, 1, &a, &e), LM_USAGE);
    assert_int_equal(lm_adapt_node(p, "attn"), LM_NONE);
    lm_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_follow_the_products_of_their_input),
        cmocka_unit_test(several_adapters_are_added_in_their_order),
        cmocka_unit_test(projections_of_latents_have_one_pair),
        cmocka_unit_test(rows_of_gguf_files_equal_checkpoints),
        cmocka_unit_test(unsupported_adapters_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
