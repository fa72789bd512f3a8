/* mamba_families.c - which descriptions of models with a state are rejected, and which kinds of layers
 * the others have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "descriptions.h"

#define COMMON "\"vocab_size\": 64, \"hidden_size\": 32, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
#define GRANITE(rest) \
    "{\"model_type\": \"granitemoehybrid\", " COMMON "\"num_hidden_layers\": 2, \"num_local_experts\": 0, " rest "}"
#define GRANITE_MAMBA "\"mamba_n_heads\": 4, \"mamba_d_state\": 16"
#define NEMOTRON(rest) \
    "{\"model_type\": \"nemotron_h\", " COMMON "\"head_dim\": 8, \"mamba_num_heads\": 4, \"mamba_head_dim\": 16, " \
    "\"n_groups\": 2, \"intermediate_size\": 40, " rest "}"
#define FALCON(rest) \
    "{\"model_type\": \"falcon_h1\", " COMMON "\"num_hidden_layers\": 1, \"mamba_n_heads\": 4, \"mamba_d_ssm\": 64, " rest "}"
#define MAMBA2(rest) \
    "{\"model_type\": \"mamba2\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 1, " rest "}"
#define QWEN(rest) \
    "{\"model_type\": \"qwen3_5_text\", " COMMON "\"num_hidden_layers\": 2, \"head_dim\": 8, \"intermediate_size\": 40, " \
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, " rest "}"
#define SECTIONS(list) "\"rope_parameters\": {\"rope_type\": \"default\", \"mrope_section\": " list "}"
#define MAMBA(rest) \
    "{\"model_type\": \"mamba\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 1, " rest "}"
#define JAMBA(rest) \
    "{\"model_type\": \"jamba\", " COMMON "\"num_hidden_layers\": 4, \"intermediate_size\": 40, " rest "}"
#define LFM3(rest) \
    "{\"model_type\": \"lfm3\", " COMMON "\"num_hidden_layers\": 3, \"intermediate_size\": 40, \"head_dim\": 12, " rest "}"
#define FULL_ROPE(rest) \
    LFM3("\"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 100.0}, \"full_attention\": {\"rope_theta\": 50.0, " \
         "\"rope_type\": \"proportional\", " rest "}}")
#define OLMO(rest) \
    "{\"model_type\": \"olmo_hybrid\", " COMMON "\"num_hidden_layers\": 4, \"intermediate_size\": 40, " rest "}"
#define GRIFFIN(rest) \
    "{\"model_type\": \"recurrent_gemma\", " COMMON "\"num_hidden_layers\": 5, \"intermediate_size\": 40, " rest "}"
#define MAMBA2_HEADS "\"num_heads\": 4, \"head_dim\": 16, \"n_groups\": 2"

/* Each is rejected with an error that names the member. */
static void sizes_that_do_not_fit(void **state)
{
    static const rejected bad[] = {
        { GRANITE("\"layer_types\": [\"mamba\", \"attentive\"], " GRANITE_MAMBA), "layer_types" },
        { GRANITE("\"layer_types\": [\"mamba\"], " GRANITE_MAMBA), "layer_types" },
        { GRANITE("\"layer_types\": [\"mamba\", \"attention\"], \"mamba_n_heads\": 5"), "mamba_n_heads" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_d_head\": 8"), "mamba_n_heads" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_d_head\": \"wide\""), "mamba_d_head" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_n_groups\": 3"), "mamba_n_groups" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_n_groups\": 0"), "mamba_n_groups" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_d_conv\": 65"), "mamba_d_conv" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_expand\": 65"), "mamba_expand" },
        { GRANITE(GRANITE_MAMBA ", \"time_step_limit\": [0.5, 0.1]"), "time_step_limit" },
        { GRANITE(GRANITE_MAMBA ", \"time_step_limit\": [-1, 1]"), "time_step_limit" },
        { GRANITE(GRANITE_MAMBA ", \"time_step_limit\": [0.1]"), "time_step_limit" },
        { GRANITE(GRANITE_MAMBA ", \"time_step_limit\": [Infinity, Infinity]"), "time_step_limit" },
        { LFM3("\"layer_types\": [\"conv\", \"full_attention\", \"sliding\"]"), "layer_types" },
        { LFM3("\"layer_types\": [\"conv\"]"), "layer_types" },
        { LFM3("\"conv_L_cache\": 1"), "conv_L_cache" },
        { LFM3("\"sliding_window\": 0"), "sliding_window" },
        { LFM3("\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}"), "rope_scaling" },
        { LFM3("\"rope_parameters\": {\"rope_type\": \"default\"}"), "rope_parameters" },
        { FULL_ROPE("\"partial_rotary_factor\": 0.1"), "rope_parameters/full_attention/partial_rotary_factor" },
        { FULL_ROPE("\"partial_rotary_factor\": 1.5"), "rope_parameters/full_attention/partial_rotary_factor" },
        { FULL_ROPE("\"partial_rotary_factor\": -1"), "rope_parameters/full_attention/partial_rotary_factor" },
        { FULL_ROPE("\"factor\": 0"), "rope_parameters/full_attention/factor" },
        { OLMO("\"layer_types\": [\"linear_attention\", \"linear_attention\", \"linear_attention\", "
               "\"linear_attention\"]"), "layer_types" },
        { OLMO("\"layer_types\": [\"full_attention\"]"), "layer_types" },
        { OLMO("\"linear_num_key_heads\": 3"), "linear_num_value_heads" },
        { OLMO("\"linear_num_key_heads\": 0"), "linear_num_key_heads" },
        { OLMO("\"linear_conv_kernel_dim\": 0"), "linear_conv_kernel_dim" },
        { OLMO("\"linear_key_head_dim\": 2000"), "linear_key_head_dim" },
        { OLMO("\"linear_num_key_heads\": 1024, \"linear_num_value_heads\": 1024"), "linear_key_head_dim" },
        { QWEN("\"rope_parameters\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5}"), "rope_parameters" },
        { NEMOTRON("\"hybrid_override_pattern\": \"MX\""), "hybrid_override_pattern" },
        { NEMOTRON("\"hybrid_override_pattern\": \"\""), "hybrid_override_pattern" },
        { NEMOTRON("\"layers_block_type\": [\"mamba\", \"mixer\"]"), "layers_block_type" },
        { NEMOTRON("\"hybrid_override_pattern\": \"ME\", \"mlp_hidden_act\": \"silu\""), "mlp_hidden_act" },
        { NEMOTRON("\"hybrid_override_pattern\": \"ME\", \"n_group\": 2, \"topk_group\": 3"), "topk_group" },
        { FALCON("\"mamba_n_groups\": 1, \"ssm_multipliers\": [1, 1, 1, 1]"), "ssm_multipliers" },
        { FALCON("\"mamba_n_groups\": 1, \"mlp_multipliers\": [0, 1]"), "mlp_multipliers" },
        { MAMBA2("\"num_heads\": 4, \"head_dim\": 24, \"n_groups\": 1"), "num_heads" },
        { MAMBA2("\"num_heads\": 4, \"head_dim\": 16, \"n_groups\": 3"), "n_groups" },
        { MAMBA("\"state_size\": 0"), "state_size" },
        { MAMBA("\"state_size\": 257"), "state_size" },
        { MAMBA("\"conv_kernel\": 0"), "conv_kernel" },
        { MAMBA("\"expand\": 0"), "expand" },
        { MAMBA("\"intermediate_size\": 1048577"), "intermediate_size" },
        { MAMBA("\"time_step_rank\": 0"), "time_step_rank" },
        { MAMBA("\"time_step_rank\": \"some\""), "time_step_rank" },
        { JAMBA("\"attn_layer_period\": 0"), "attn_layer_period" },
        { JAMBA("\"attn_layer_offset\": 8"), "attn_layer_offset" },
        { JAMBA("\"expert_layer_period\": 0"), "expert_layer_period" },
        { JAMBA("\"expert_layer_offset\": 2"), "expert_layer_offset" },
        { JAMBA("\"num_experts\": 4, \"num_experts_per_tok\": 5"), "num_experts_per_tok" },
        { JAMBA("\"mamba_dt_rank\": 0"), "mamba_dt_rank" },
        { GRIFFIN("\"block_types\": []"), "block_types" },
        { GRIFFIN("\"block_types\": [\"recurrent\", \"local\"]"), "block_types" },
        { GRIFFIN("\"block_types\": [1]"), "block_types" },
        { GRIFFIN("\"lru_width\": 30"), "lru_width" },
        { GRIFFIN("\"lru_width\": 0"), "lru_width" },
        { GRIFFIN("\"conv1d_width\": 1"), "conv1d_width" },
        { GRIFFIN("\"logits_soft_cap\": 0"), "logits_soft_cap" },
        { GRIFFIN("\"attention_window_size\": 0"), "attention_window_size" },
        { GRIFFIN("\"partial_rotary_factor\": 0"), "partial_rotary_factor" },
        { GRIFFIN("\"embeddings_scale_by_sqrt_dim\": false"), "embeddings_scale_by_sqrt_dim" },
        { GRIFFIN("\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}"), "rope_parameters" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
}

/* The line gives the value and what is expected. */
static void errors_give_the_value(void **state)
{
    static const struct { const char *json, *message; } bad[] = {
        { GRANITE(GRANITE_MAMBA ", \"mamba_d_head\": 8"), "4 heads of 8 dimensions do not make a mixer of width 64" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_d_head\": \"wide\""), "\"wide\" is neither a number nor \"auto\"" },
        { GRANITE(GRANITE_MAMBA ", \"mamba_n_groups\": 3"), "3 does not divide the number of heads, 4" },
        { GRANITE(GRANITE_MAMBA ", \"time_step_limit\": [0.5, 0.25]"), "0.5 to 0.25 is not a range from 0 on" },
        { NEMOTRON("\"layers_block_type\": [\"mamba\", \"mixer\"]"),
          "layer 1 is \"mixer\"; mamba, attention, mlp or moe is expected" },
        { NEMOTRON("\"hybrid_override_pattern\": \"MX\""), "layer 1 is X; M, *, - or E is expected" },
        { MAMBA("\"time_step_rank\": \"some\""), "\"some\" is neither a number nor \"auto\"" },
        { JAMBA("\"attn_layer_offset\": 8"), "8 is not less than attn_layer_period, 8" },
        { GRIFFIN("\"block_types\": [\"recurrent\", \"local\"]"),
          "entry 1 is \"local\"; \"recurrent\" or \"attention\" is expected" },
        { GRIFFIN("\"lru_width\": 30"), "num_attention_heads, 4, does not divide 30" },
        { QWEN(SECTIONS("[1, 1]")), "2 entries; 3 are expected, which share the pairs of a head" },
        { QWEN(SECTIONS("[1, 1, 5]")), "entry 2 is not a whole number from 0 to 4, half of head_dim" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_program *p = NULL;
        lm_error    e;
        assert_int_equal(describe(bad[i].json, &p, NULL, &e), LM_BAD_MODEL);
        assert_non_null(strstr(e.message, bad[i].message));
    }
}

/* Words of old and new configurations, patterns, and infinity in each of its spellings. */
static void kinds_of_layers(void **state)
{
    static const struct { const char *json, *stateful, *no_mlp; } good[] = {
        { GRANITE("\"layer_types\": [\"mamba\", \"attention\"], " GRANITE_MAMBA), "10", "00" },
        { GRANITE("\"layer_types\": [\"full_attention\", \"linear_attention\"], " GRANITE_MAMBA), "01", "00" },
        { GRANITE("\"time_step_limit\": [0.0, Infinity], " GRANITE_MAMBA), "11", "00" },
        { GRANITE("\"time_step_limit\": [0, {\"__float__\": \"Infinity\"}], " GRANITE_MAMBA), "11", "00" },
        { GRANITE("\"layer_types\": [\"attention\", \"attention\"], \"position_embedding_type\": \"rope\""), "00",
          "00" },
        { NEMOTRON("\"hybrid_override_pattern\": \"M-*E\""), "1000", "1010" },
        { NEMOTRON("\"layers_block_type\": [\"mlp\", \"linear_attention\", \"full_attention\"]"), "010", "011" },
        { MAMBA2(MAMBA2_HEADS), "1", "1" },
        { MAMBA("\"time_step_rank\": \"auto\""), "1", "1" },
        { GRIFFIN("\"lru_width\": 16"), "11011", "00000" },
        { GRIFFIN("\"block_types\": [\"attention\", \"recurrent\"]"), "01010", "00000" },
        { JAMBA("\"num_experts\": 1, \"attn_layer_period\": 3, \"attn_layer_offset\": 1"), "1011", "0000" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const lm_config *c = &described;
        lm_program_free(program(good[i].json));
        assert_int_equal(c->n_layers, strlen(good[i].stateful));
        for (uint32_t k = 0; k < c->n_layers; k++) {
            assert_int_equal(c->stateful[k], good[i].stateful[k] == '1');
            assert_int_equal(c->no_mlp[k], good[i].no_mlp[k] == '1');
        }
    }
}

/* The pattern rules, as in transformers. */
static void another_number_of_layers_is_mentioned(void **state)
{
    lm_text     warnings = { 0 };
    lm_program *p        = NULL;
    lm_error    e;

    (void)state;
    static const char two[] = NEMOTRON("\"hybrid_override_pattern\": \"M*\", \"num_hidden_layers\": 3");
    assert_int_equal(describe(two, &p, &warnings, &e), LM_OK);
    lm_program_free(p);
    assert_int_equal(described.n_layers, 2);
    assert_non_null(strstr(warnings.data, "num_hidden_layers is 3"));
    lm_text_free(&warnings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_do_not_fit),
        cmocka_unit_test(errors_give_the_value),
        cmocka_unit_test(kinds_of_layers),
        cmocka_unit_test(another_number_of_layers_is_mentioned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
