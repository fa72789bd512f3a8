/* windowed_families.c - descriptions of AFMoE, Laguna, MiMo V2 Flash and Cohere 2 with experts: rejected
 * ones, and what the accepted ones mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "descriptions.h"

#define SIZES "\"vocab_size\": 64, \"hidden_size\": 32, \"intermediate_size\": 16, \"num_hidden_layers\": 4, " \
              "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8"
#define AFMOE(more) "{\"model_type\": \"afmoe\", " SIZES ", \"num_experts\": 8, \"moe_intermediate_size\": 8" more "}"
#define LAGUNA(more) "{\"model_type\": \"laguna\", " SIZES ", \"num_experts\": 8" more "}"
#define MIMO(more) "{\"model_type\": \"mimo_v2_flash\", \"vocab_size\": 64, \"hidden_size\": 32, " \
                   "\"intermediate_size\": 16, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, " \
                   "\"num_key_value_heads\": 2, \"n_routed_experts\": 8, \"head_dim\": 24, \"v_head_dim\": 16" more "}"
#define COHERE(more) "{\"model_type\": \"cohere2_moe\", " SIZES more "}"
#define KINDS ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\"]"

static void other_models_are_rejected(void **state)
{
    static const rejected bad[] = {
        { AFMOE(", \"n_group\": 2"), "n_group" },
        { AFMOE(", \"num_limited_groups\": 2"), "num_limited_groups" },
        { AFMOE(", \"score_func\": \"softmax\""), "score_func" },
        { AFMOE(", \"route_norm\": false"), "route_norm" },
        { AFMOE(", \"sliding_window\": null"), "sliding_window" },
        { AFMOE(", \"num_shared_experts\": 1025"), "num_shared_experts" },
        { LAGUNA(", \"gating\": false"), "gating" },
        { LAGUNA(", \"gating\": \"per-lane\""), "gating" },
        { LAGUNA(", \"gating_types\": [\"per_head\", \"per_head\", \"per_head\", \"per_element\"]"),
          "gating_types" },
        { LAGUNA(KINDS ", \"num_attention_heads_per_layer\": [4, 6, 6]"), "num_attention_heads_per_layer" },
        { LAGUNA(KINDS ", \"num_attention_heads_per_layer\": [4, 6, 8, 4]"),
          "num_attention_heads_per_layer" },
        { LAGUNA(KINDS ", \"num_attention_heads_per_layer\": [4, 0, 0, 4]"),
          "num_attention_heads_per_layer" },
        { LAGUNA(KINDS ", \"num_attention_heads_per_layer\": [4, 5, 5, 4]"), "num_key_value_heads" },
        { LAGUNA(", \"moe_apply_router_weight_on_input\": true"), "moe_apply_router_weight_on_input" },
        { LAGUNA(", \"moe_router_logit_softcapping\": -1"), "moe_router_logit_softcapping" },
        { LAGUNA(", \"mlp_only_layers\": [4]"), "mlp_only_layers" },
        { LAGUNA(", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e4, "
                 "\"partial_rotary_factor\": 0.375}}"),
          "rope_parameters/full_attention/partial_rotary_factor" },
        { LAGUNA(", \"rope_parameters\": {\"rope_theta\": 1e4}"), "rope_parameters" },
        { MIMO(", \"hybrid_layer_pattern\": [0, 1, 1]"), "hybrid_layer_pattern" },
        { MIMO(", \"hybrid_layer_pattern\": [0, 1, 2, 0]"), "hybrid_layer_pattern" },
        { MIMO(", \"moe_layer_freq\": [0, 1, 1, -1]"), "moe_layer_freq" },
        { MIMO(", \"swa_num_key_value_heads\": 3"), "num_key_value_heads" },
        { MIMO(", \"swa_head_dim\": 16"), "swa_head_dim" },
        { MIMO(", \"swa_v_head_dim\": 24"), "swa_v_head_dim" },
        { MIMO(", \"swa_num_attention_heads\": 8"), "swa_num_attention_heads" },
        { MIMO(", \"add_full_attention_sink_bias\": true"), "add_full_attention_sink_bias" },
        { MIMO(", \"add_swa_attention_sink_bias\": false"), "add_swa_attention_sink_bias" },
        { MIMO(", \"n_shared_experts\": 1"), "n_shared_experts" },
        { MIMO(", \"sliding_window\": null"), "sliding_window" },
        { COHERE(", \"expert_selection_fn\": \"sqrtsoftplus\""), "expert_selection_fn" },
        { COHERE(", \"shared_expert_combination_strategy\": \"max\""), "shared_expert_combination_strategy" },
        { COHERE(", \"use_qk_norm\": true"), "use_qk_norm" },
        { COHERE(", \"sliding_window\": null"), "sliding_window" },
        { COHERE(", \"sliding_window_pattern\": 0"), "sliding_window_pattern" },
        { COHERE(", \"mlp_layer_types\": [\"dense\", \"sparse\"]"), "mlp_layer_types" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
}

static const lm_attention_spec *attention_of(const lm_program *p, int32_t layer)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].layer == layer && p->nodes[i].code == LM_OP_ATTENTION)
            return &p->nodes[i].attention.spec;
    fail_msg("layer %d has no attention", layer);
    return NULL;
}

static void heads_differ_by_kind(void **state)
{
    lm_program *p = program(LAGUNA(KINDS ", \"num_attention_heads_per_layer\": [4, 6, 6, 4]"));

    (void)state;
    assert_int_equal(attention_of(p, 0)->n_heads, 4);
    assert_int_equal(attention_of(p, 1)->n_heads, 6);
    assert_int_equal(attention_of(p, 1)->window, 512);
    assert_int_equal(attention_of(p, 3)->window, 0);
    lm_program_free(p);

    p = program(MIMO(", \"hybrid_layer_pattern\": [0, 1, 1, 0], \"sliding_window_size\": 128"));
    for (int32_t i = 0; i < 4; i++) {
        const lm_attention_spec *a = attention_of(p, i);
        bool local = i == 1 || i == 2;
        assert_int_equal(a->n_kv_heads, local ? 4 : 2);
        assert_int_equal(a->window, local ? 129 : 0);        /* the query's own position is not counted */
        assert_int_equal(a->sinks, local);
        assert_int_equal(a->k_dim, 24);
        assert_int_equal(a->v_dim, 16);
    }
    lm_program_free(p);
}

/* Published files and transformers say the same in other words. */
static void kinds_in_either_spelling(void **state)
{
    lm_text a = { 0 }, b = { 0 };
    lm_program *p = program(
        MIMO(", \"hybrid_layer_pattern\": [0, 1, 1, 0], \"moe_layer_freq\": [0, 1, 0, 1], "
             "\"rope_theta\": 100, \"swa_rope_theta\": 10, \"partial_rotary_factor\": 0.5"));
    lm_program *q = program(
        MIMO(KINDS ", \"mlp_layer_types\": [\"dense\", \"sparse\", \"dense\", \"sparse\"], "
                   "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 100, "
                   "\"partial_rotary_factor\": 0.5}, \"sliding_attention\": {\"rope_theta\": 10, "
                   "\"partial_rotary_factor\": 0.5}}"));

    (void)state;
    lm_program_print(p, &a);
    lm_program_print(q, &b);
    assert_string_equal(a.data, b.data);
    assert_int_equal(p->n_ropes, q->n_ropes);
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        assert_int_equal(p->ropes[i].spec.dim, 12);
        assert_true(p->ropes[i].spec.base == q->ropes[i].spec.base);
    }
    lm_text_free(&a);
    lm_text_free(&b);
    lm_program_free(p);
    lm_program_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_models_are_rejected),
        cmocka_unit_test(heads_differ_by_kind),
        cmocka_unit_test(kinds_in_either_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
