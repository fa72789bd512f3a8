/* builder.c - what a description records, and which mistakes it rejects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "program/builder.h"

static const lm_name names[] = {
    { "embed", "token_embd" }, { "layers.*.proj", "blk.*.attn_q" }, { "norm", "output_norm" }, { NULL, NULL },
};

/* Record two layers of one projection and a residual, and a tied head. */
static lm_program *small(void)
{
    lm_builder *b = lm_builder_new("small", "Small", NULL, names);
    lm_program *p = NULL;
    lm_error    e = { 0 };

    lm_value x = lm_embedding(b, "embed", 10, 8);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < 2; i++) {
        lm_push_layer(b, i, "%sLayer");
        x = lm_add(b, x, lm_linear(b, "proj", x, 8, i == 1));
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_rms_norm(b, "norm", x, 1e-5f);
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", x, 10, "embed"), &p, &e), LM_OK);
    return p;
}

static void modules_and_weights_are_named(void **state)
{
    lm_program *p = small();

    (void)state;
    assert_string_equal(p->class_name, "SmallForCausalLM");
    assert_int_equal(p->n_layers, 2);
    assert_int_equal(p->n_vocab, 10);
    uint32_t m = lm_program_module(p, "layers.1");
    assert_int_not_equal(m, LM_NONE);
    assert_string_equal(p->modules[m].class_name, "SmallLayer");
    assert_int_equal(p->modules[m].layer, 1);
    assert_int_equal(p->modules[lm_program_module(p, "norm")].layer, -1);
    uint32_t w = lm_program_weight(p, "layers.1.proj.bias");
    assert_string_equal(p->weights[w].gguf, "blk.1.attn_q.bias");
    assert_int_equal(lm_program_weight(p, "layers.0.proj.bias"), LM_NONE);
    assert_string_equal(p->weights[lm_program_weight(p, "norm.weight")].gguf, "output_norm.weight");
    lm_program_free(p);
}

/* A tied table is one weight with two uses, counted once. */
static void tied_heads_count_once(void **state)
{
    lm_program *p = small();
    uint32_t    w = lm_program_weight(p, "embed.weight");

    (void)state;
    assert_int_equal(p->weights[w].uses, 2);
    assert_int_equal(lm_program_weight(p, "head.weight"), LM_NONE);
    assert_int_equal(lm_program_parameters(p), 10 * 8 + 2 * 64 + 8 + 8);
    assert_int_equal(lm_module_parameters(p, lm_program_module(p, "layers")), 2 * 64 + 8);
    lm_program_free(p);
}

static void values_are_found_by_path(void **state)
{
    lm_program *p = small();
    lm_value    v = lm_program_value(p, "layers.0");

    (void)state;
    assert_int_not_equal(v, LM_NONE);
    assert_int_equal(p->nodes[p->values[v].producer].code, LM_OP_ADD);
    assert_int_equal(lm_program_value(p, "layers.7"), LM_NONE);
    assert_int_equal(lm_program_value(p, "head"), p->logits);
    lm_program_free(p);
}

static void costs_are_of_one_row(void **state)
{
    lm_program *p = small();
    lm_cost     c;

    (void)state;
    lm_node_cost(p, &p->nodes[p->values[lm_program_value(p, "layers.1.proj")].producer], &c);
    assert_int_equal(c.mult_adds, 64);
    assert_int_equal(c.flops, 128 + 8);
    lm_node_cost(p, &p->nodes[0], &c);
    assert_int_equal(c.mult_adds, 0);
    assert_int_equal(c.flops, 0);
    lm_program_free(p);
}

/* Norms of heads: one weight for all, or a row for each; the factor of an embedding is inside its module. */
static void norms_of_heads(void **state)
{
    lm_builder *b = lm_builder_new("norms", "Norms", NULL, names);
    lm_program *p = NULL;
    lm_error    e = { 0 };
    lm_cost     c;

    (void)state;
    lm_value x = lm_embed_scaled(b, "embed", "%sScaledWordEmbedding", 10, 8, 3);
    x          = lm_layer_norm_heads(b, "shared", x, 4, 0, 1e-5f);
    x          = lm_layer_norm_heads(b, "norms.*", x, 4, 4, 1e-5f);
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", x, 10, "embed"), &p, &e), LM_OK);
    assert_int_equal(p->weights[lm_program_weight(p, "shared.weight")].elements, 2);
    assert_int_equal(p->weights[lm_program_weight(p, "shared.bias")].elements, 2);
    const lm_weight *each = &p->weights[lm_program_weight(p, "norms.*.weight")];
    assert_int_equal(each->elements, 8);
    assert_int_equal(each->n_dims, 2);
    assert_int_equal(each->dims[0], 4);
    lm_node_cost(p, &p->nodes[p->values[lm_program_value(p, "shared")].producer], &c);
    assert_int_equal(c.weight_elements, 4);
    lm_node_cost(p, &p->nodes[p->values[lm_program_value(p, "norms.*")].producer], &c);
    assert_int_equal(c.weight_elements, 8);
    assert_int_equal(p->nodes[p->values[lm_program_value(p, "embed")].producer].code, LM_OP_SCALE);
    lm_program_free(p);

    b = lm_builder_new("bad", "Bad", NULL, names);
    x = lm_layer_norm_heads(b, "norm", lm_embedding(b, "embed", 10, 8), 3, 0, 1e-5f);
    assert_int_equal(lm_builder_finish(b, x, &p, &e), LM_BAD_MODEL);
    assert_non_null(strstr(e.message, "do not divide"));
}

/* The first mistake is reported, and calls after it are harmless. */
static void errors_persist(void **state)
{
    lm_builder *b = lm_builder_new("bad", "Bad", NULL, names);
    lm_program *p = NULL;
    lm_error    e = { 0 };

    (void)state;
    lm_value          x = lm_embedding(b, "embed", 10, 8), y = lm_linear(b, "proj", x, 6, false);
    lm_attention_spec s = { .n_heads = 3, .n_kv_heads = 2, .k_dim = 2, .v_dim = 2 };
    lm_add(b, x, y);
    lm_attention(b, x, x, x, &s);
    lm_head(b, "head", x, 11, "embed");
    assert_int_equal(lm_builder_finish(b, 99, &p, &e), LM_BAD_MODEL);
    assert_null(p);
    assert_non_null(strstr(e.message, "different widths"));
}

/* An allocation failure is not reported as a mistake of the description. The paths are so long that most of
 * them need an allocation. */
static void out_of_memory_is_not_a_bad_model(void **state)
{
    static char    longest[6000];
    const lm_name  long_names[] = { { "embed", "token_embd" }, { longest, longest }, { NULL, NULL } };
    lm_status      status = LM_NO_MEMORY;
    uint64_t       n = 1;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    for (; status != LM_OK; n++) {
        lm_program *p = NULL;
        lm_error    e = { 0 };
        lm_alloc_fail_at(n);
        lm_builder *b = lm_builder_new("small", "Small", NULL, long_names);
        if (b) {
            lm_value x = lm_linear(b, longest, lm_embedding(b, "embed", 10, 8), 8, true);
            status     = lm_builder_finish(b, lm_head(b, "head", x, 10, "embed"), &p, &e);
        }
        lm_alloc_fail_at(0);
        if (status != LM_OK && status != LM_NO_MEMORY)
            fail_msg("allocation %d: %s: %s", (int)n, e.where, e.message);
        if (p)
            lm_program_free(p);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_and_weights_are_named), cmocka_unit_test(tied_heads_count_once),
        cmocka_unit_test(values_are_found_by_path),      cmocka_unit_test(costs_are_of_one_row),
        cmocka_unit_test(errors_persist),                cmocka_unit_test(norms_of_heads),
        cmocka_unit_test(out_of_memory_is_not_a_bad_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
