/* mixture_families.c - descriptions of MiniMax M2, Hunyuan-A13B, Hy3, ERNIE 4.5 with experts, dots1 and
 * Llama 4: rejected ones, and what the accepted ones mean. */
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
#define MINIMAX(more) "{\"model_type\": \"minimax_m2\", " SIZES ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2" more "}"
#define HUNYUAN(more) "{\"model_type\": \"hunyuan_v1_moe\", " SIZES ", \"num_experts\": 4" more "}"
#define HY3(more) "{\"model_type\": \"hy_v3\", " SIZES ", \"num_experts\": 8, \"moe_intermediate_size\": 8" more "}"
#define ERNIE(more) "{\"model_type\": \"ernie4_5_moe\", " SIZES ", \"moe_num_experts\": 8" more "}"
#define DOTS(more) "{\"model_type\": \"dots1\", " SIZES ", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2" more "}"
#define LLAMA4(more) "{\"model_type\": \"llama4_text\", " SIZES ", \"num_local_experts\": 4" more "}"

static void other_models_are_rejected(void **state)
{
    static const rejected bad[] = {
        { MINIMAX(", \"attn_type_list\": [1, 0, 1, 1]"), "attn_type_list" },
        { MINIMAX(", \"attn_type_list\": [1, 1, 1]"), "attn_type_list" },
        { MINIMAX(", \"use_qk_norm\": false"), "use_qk_norm" },
        { MINIMAX(", \"use_routing_bias\": false"), "use_routing_bias" },
        { MINIMAX(", \"qk_norm_type\": \"per_head\""), "qk_norm_type" },
        { MINIMAX(", \"rotary_dim\": 16"), "rotary_dim" },
        { MINIMAX(", \"scoring_func\": \"softmax\""), "scoring_func" },
        { HUNYUAN(", \"moe_topk\": [2, 2, 1, 2]"), "moe_topk" },
        { HUNYUAN(", \"moe_topk\": [2, 2, 2]"), "moe_topk" },
        { HUNYUAN(", \"moe_topk\": [5, 5, 5, 5]"), "moe_topk" },
        { HUNYUAN(", \"moe_intermediate_size\": 8"), "moe_intermediate_size" },
        { HUNYUAN(", \"num_shared_expert\": [2, 2, 2, 2]"), "num_shared_expert" },
        { HUNYUAN(", \"use_qk_norm\": false"), "use_qk_norm" },
        { HY3(", \"route_norm\": false"), "route_norm" },
        { HY3(", \"qk_norm\": false"), "qk_norm" },
        { HY3(", \"first_k_dense_replace\": 2"), "first_k_dense_replace" },
        { HY3(", \"num_experts_per_tok\": 9"), "num_experts_per_tok" },
        { ERNIE(", \"moe_norm_min\": 0.5"), "moe_norm_min" },
        { ERNIE(", \"moe_layer_end_index\": -2"), "moe_layer_end_index" },
        { ERNIE(", \"moe_layer_interval\": 0"), "moe_layer_interval" },
        { ERNIE(", \"moe_k\": 9"), "moe_k" },
        { DOTS(", \"n_group\": 3"), "n_group" },
        { DOTS(", \"scoring_func\": \"softmax\""), "scoring_func" },
        { DOTS(", \"n_shared_experts\": 1025"), "n_shared_experts" },
        { LLAMA4(", \"attention_chunk_size\": 0"), "attention_chunk_size" },
        { LLAMA4(", \"floor_scale\": 0"), "floor_scale" },
        { LLAMA4(", \"interleave_moe_layer_step\": 0"), "interleave_moe_layer_step" },
        { LLAMA4(", \"no_rope_layers\": [1, 1, 1]"), "no_rope_layers" },
        { LLAMA4(", \"no_rope_layers\": [1, 2, 1, 1]"), "no_rope_layers" },
        { LLAMA4(", \"moe_layers\": [0, 4]"), "moe_layers" },
        { LLAMA4(", \"num_experts_per_tok\": 5"), "num_experts_per_tok" },
        { LLAMA4(", \"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\", "
                 "\"full_attention\"]"),
          "layer_types" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
}

static uint32_t operations(const lm_program *p, lm_op_code code, int32_t layer)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        n += p->nodes[i].code == code && p->nodes[i].layer == layer;
    return n;
}

/* Every fourth layer sees everything, does not rotate and has a temperature; the others have chunks. */
static void layers_of_llama4(void **state)
{
    lm_program *p = program(LLAMA4(", \"interleave_moe_layer_step\": 2, \"attention_chunk_size\": 6"));

    (void)state;
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(operations(p, LM_OP_ROPE, i), i == 3 ? 0 : 2);
        assert_int_equal(operations(p, LM_OP_TEMPERATURE, i), i == 3);
        assert_int_equal(operations(p, LM_OP_EXPERTS, i), i % 2);
        assert_int_equal(p->caches[i].window, i == 3 ? 0 : 6);
        assert_int_equal(p->caches[i].chunked, i != 3);
    }
    lm_program_free(p);
    p = program(LLAMA4(", \"attention_chunk_size\": null, \"attn_temperature_tuning\": false"));
    assert_int_equal(p->caches[0].window, 0);
    assert_false(p->caches[0].chunked);
    assert_int_equal(operations(p, LM_OP_TEMPERATURE, 3), 0);
    lm_program_free(p);
}

/* A chunk of 4: tokens see 1, 2, 3, 4, 1, 2, ... keys. */
static void keys_of_chunks(void **state)
{
    uint64_t seen = 0;

    (void)state;
    for (uint64_t t = 1; t <= 19; t++) {
        assert_int_equal(lm_keys_at(t, 4, true), (t - 1) % 4 + 1);
        seen += (t - 1) % 4 + 1;
        assert_int_equal(lm_keys_seen(t, 4, true), seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_models_are_rejected),
        cmocka_unit_test(layers_of_llama4),
        cmocka_unit_test(keys_of_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
