/* latent_families.c - descriptions with latent attention and mixtures of experts: published counts, which
 * layers are mixtures, the scale of the scores, rejected descriptions; GPT-3's table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "descriptions.h"

#define YARN(m)                                                                                              \
"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"original_max_position_embeddings\": 4096, \"beta_fast\": 32, "\
                "\"beta_slow\": 1, \"mscale\": " m ", \"mscale_all_dim\": " m "}, "
#define LATENT "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, " \
               "\"tie_word_embeddings\": false, "
#define LITE "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 102400, \"hidden_size\": 2048, \"num_hidden_layers\": 27, " \
             "\"num_attention_heads\": 16, \"intermediate_size\": 10944, \"moe_intermediate_size\": 1408, \"n_routed_experts\": 64, " \
             "\"n_shared_experts\": 2, \"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"q_lora_rank\": null, " \
             LATENT YARN("0.707")
#define V2 "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 102400, \"hidden_size\": 5120, \"num_hidden_layers\": 60, "\
           "\"num_attention_heads\": 128, \"intermediate_size\": 12288, \"moe_intermediate_size\": 1536, \"n_routed_experts\": 160, "\
           "\"n_shared_experts\": 2, \"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"q_lora_rank\": 1536, "\
           LATENT YARN("0.707")                                                                              \
           "\"topk_method\": \"group_limited_greedy\", \"n_group\": 8, \"topk_group\": 3, \"routed_scaling_factor\": 16.0"
#define V3 "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 129280, \"hidden_size\": 7168, \"num_hidden_layers\": 61, "\
           "\"num_attention_heads\": 128, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, \"n_routed_experts\": 256, "\
           "\"n_shared_experts\": 1, \"num_experts_per_tok\": 8, \"first_k_dense_replace\": 3, \"q_lora_rank\": 1536, "\
           LATENT YARN("1.0")                                                                                \
           "\"n_group\": 8, \"topk_group\": 4, \"routed_scaling_factor\": 2.5"

/* The parameters are half the bytes of the published BF16 checkpoints; the cache is that of one position. */
static void published_counts(void **state)
{
    static const struct {
        const char *json;
        uint64_t    parameters;
        uint32_t    layers;
    } models[] = { { LITE "\"n_group\": 1}", 15706484224, 27 }, { V2 "}", 235741434880, 60 } };

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int naive = 0; naive < 2; naive++) {
            lm_program *p = program_as((lm_source){ .latent_naive = naive }, models[i].json);
            uint64_t    held = 0;
            assert_int_equal(lm_program_parameters(p), models[i].parameters);
            for (uint32_t k = 0; k < p->n_caches; k++)
                held += (uint64_t)p->caches[k].n_kv_heads *
                        (p->caches[k].k_dim + (p->caches[k].v_in_k ? 0 : p->caches[k].v_dim));
            assert_int_equal(held, models[i].layers * (naive ? (i ? 128u : 16u) * (192 + 128) : 512 + 64));
            lm_program_free(p);
        }
}

static const lm_node *first(const lm_program *p, lm_op_code code)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == code)
            return &p->nodes[i];
    fail_msg("the program has no such operation");
    return NULL;
}

/* (n + r)^-1/2 times the square of 0.1 mscale_all_dim ln(factor) + 1, in both forms. */
static void the_magnitude_is_in_the_scores(void **state)
{
    (void)state;
    for (int naive = 0; naive < 2; naive++) {
        lm_source   s    = { .latent_naive = naive };
        lm_program *lite = program_as(s, LITE "\"n_group\": 1}"), *v3 = program_as(s, V3 "}");
        assert_true(fabs((double)first(lite, LM_OP_ATTENTION)->attention.spec.scale - 0.114721387) < 1e-8);
        assert_true(fabs((double)first(v3, LM_OP_ATTENTION)->attention.spec.scale - 0.135233779) < 1e-8);
        lm_program_free(lite);
        lm_program_free(v3);
    }
}

static bool is_mixture(const lm_program *p, int32_t layer)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].layer == layer && p->nodes[i].code == LM_OP_EXPERTS)
            return true;
    return false;
}

/* A layer is dense below first_k_dense_replace, and where moe_layer_freq does not divide its index. */
static void dense_layers_are_where_the_file_puts_them(void **state)
{
    lm_program *p = program(LITE "\"moe_layer_freq\": 2}");

    (void)state;
    for (int32_t i = 0; i < 27; i++)
        assert_int_equal(is_mixture(p, i), i >= 1 && i % 2 == 0);
    lm_program_free(p);
    p = program(V3 "}");
    for (int32_t i = 0; i < 61; i++)
        assert_int_equal(is_mixture(p, i), i >= 3);
    lm_program_free(p);
}

static void routes_match_the_version(void **state)
{
    lm_program *lite = program(LITE "\"topk_method\": \"greedy\", \"n_group\": 4, \"topk_group\": 1}");
    lm_program          *v2 = program(V2 "}"), *v3 = program(V3 "}");
    const lm_route_spec *a = &first(lite, LM_OP_ROUTE)->route.spec, *b = &first(v2, LM_OP_ROUTE)->route.spec;
    const lm_route_spec *c = &first(v3, LM_OP_ROUTE)->route.spec;

    (void)state;
    assert_int_equal(a->n_groups, 0);                    /* greedy ignores groups */
    assert_true(b->n_groups == 8 && b->top_groups == 3 && !b->group_sum_two && !b->sigmoid &&
                !b->renormalise && b->scale == 16);
    assert_true(c->n_groups == 8 && c->top_groups == 4 && c->group_sum_two && c->sigmoid && c->renormalise &&
                c->scale == 2.5f);
    assert_int_equal(first(v2, LM_OP_ROUTE)->weights[0], LM_NONE);
    assert_string_equal(v3->weights[first(v3, LM_OP_ROUTE)->weights[0]].path,
                        "model.layers.3.mlp.gate.e_score_correction_bias");
    assert_string_equal(v3->weights[first(v3, LM_OP_ROUTE)->weights[0]].gguf, "blk.3.exp_probs_b.bias");
    lm_program_free(lite);
    lm_program_free(v2);
    lm_program_free(v3);
}

/* Write the description with a member's value replaced by another. */
static void changed(char *out, size_t size, const char *json, const char *member, const char *value)
{
    char        name[64];
    const char *at;

    snprintf(name, sizeof name, "\"%s\": ", member);
    at = strstr(json, name);
    assert_non_null(at);
    at += strlen(name);
    snprintf(out, size, "%.*s%s%s", (int)(at - json), json, value, at + strcspn(at, ",}"));
}

static void other_sums_are_rejected(void **state)
{
    static const char lite[] = LITE
        "\"scoring_func\": \"softmax\", \"topk_method\": \"greedy\", \"moe_layer_freq\": 1}";
    static const char v3[]   = V3 ", \"scoring_func\": \"sigmoid\", \"topk_method\": \"noaux_tc\"}";
    static const struct {
        const char *json, *member, *value, *where;
        lm_status   status;
    } cases[] = {
        { lite, "scoring_func", "\"sigmoid\"", "scoring_func", LM_UNSUPPORTED },
        { lite, "topk_method", "\"noaux_tc\"", "topk_method", LM_UNSUPPORTED },
        { v3, "topk_method", "\"greedy\"", "topk_method", LM_UNSUPPORTED },
        { v3, "scoring_func", "\"softmax\"", "scoring_func", LM_UNSUPPORTED },
        { v3, "topk_group", "1", NULL, LM_OK },
        { v3, "n_group", "7", "n_group", LM_BAD_MODEL },
        { v3, "num_experts_per_tok", "129", "n_group", LM_BAD_MODEL },
        { lite, "qk_rope_head_dim", "63", "head_dim", LM_BAD_MODEL },
        { lite, "kv_lora_rank", "0", "kv_lora_rank", LM_BAD_MODEL },
        { lite, "num_experts_per_tok", "65", "num_experts_per_tok", LM_BAD_MODEL },
        { lite, "moe_layer_freq", "0", "moe_layer_freq", LM_BAD_MODEL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_program *p = NULL;
        lm_error    e;
        char        json[2048];
        changed(json, sizeof json, cases[i].json, cases[i].member, cases[i].value);
        if (describe(json, &p, NULL, &e) != cases[i].status)
            fail_msg("%s %s: %s", cases[i].member, cases[i].value, e.message);
        if (cases[i].where)
            assert_string_equal(e.where, cases[i].where);
        else
            lm_program_free(p);
    }
}

/* The width of the bands is unpublished, so lamina does not invent one. */
static void gpt3_has_no_window_unasked(void **state)
{
    lm_program *p = program("{\"model_type\": \"gpt3\", \"vocab_size\": 50257, \"n_positions\": 2048, "
                            "\"n_layer\": 4, \"n_embd\": 768, \"n_head\": 12, \"attention_types\": "
                            "[[[\"global\", \"local\"], 2]]}");

    (void)state;
    assert_int_equal(p->n_caches, 4);
    for (uint32_t k = 0; k < p->n_caches; k++)
        assert_int_equal(p->caches[k].window, 0);
    lm_program_free(p);
}

/* Table 2.1 of the paper; in two rows heads x head width differs from the hidden width. */
static void the_table_of_gpt3(void **state)
{
    static const struct {
        uint32_t layers, hidden, heads, width;
    } rows[] = {
        { 12, 768, 12, 64 },   { 24, 1024, 16, 64 },  { 24, 1536, 16, 96 },  { 24, 2048, 24, 128 },
        { 32, 2560, 32, 80 },  { 32, 4096, 32, 128 }, { 40, 5140, 40, 128 }, { 96, 12288, 96, 128 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"model_type\": \"gpt3\", \"vocab_size\": 50257, \"n_positions\": 2048, \"n_layer\": %u, "
                 "\"n_embd\": %u, \"n_head\": %u, \"head_dim\": %u, \"attention_types\": [[[\"global\", "
                 "\"local\"], %u]], \"window_size\": 256}",
                 rows[i].layers, rows[i].hidden, rows[i].heads, rows[i].width, rows[i].layers / 2);
        lm_program *p = program(json);
        uint64_t d = rows[i].hidden, a = (uint64_t)rows[i].heads * rows[i].width;
        /* c_attn, c_proj, c_fc, c_proj with biases, two norms; embeddings, the last norm */
        uint64_t layer = 3 * a * d + 3 * a + a * d + d + 8 * d * d + 5 * d + 4 * d;
        assert_int_equal(lm_program_parameters(p), rows[i].layers * layer + (50257 + 2048) * d + 2 * d);
        if (rows[i].hidden == 12288)
            assert_int_equal(lm_program_parameters(p), 174604259328);
        for (uint32_t k = 0; k < p->n_caches; k++)
            assert_int_equal(p->caches[k].window, k % 2 ? 256 : 0);
        lm_program_free(p);
    }
}

#define KIMI(lists) \
    "{\"model_type\": \"kimi_linear\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 3, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, \"kv_lora_rank\": 16, " \
    "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 12, \"q_lora_rank\": null, " \
    "\"num_experts\": 8, \"num_experts_per_token\": 2, \"moe_intermediate_size\": 16, " lists "}"
#define LISTS(kda, full) "\"linear_attn_config\": {\"kda_layers\": [" kda "], \"full_attn_layers\": [" full "]}"

/* The two lists count from 1; together they have every layer once. */
static void lists_of_layers_of_kimi(void **state)
{
    static const rejected bad[] = {
        { KIMI(LISTS("1, 2", "2, 3")), "linear_attn_config/full_attn_layers" },
        { KIMI(LISTS("1, 1", "2, 3")), "linear_attn_config/kda_layers" },
        { KIMI(LISTS("0, 1", "2, 3")), "linear_attn_config/kda_layers" },
        { KIMI(LISTS("1, 2", "4")), "linear_attn_config/full_attn_layers" },
        { KIMI(LISTS("1", "3")), "linear_attn_config/kda_layers" },
        { KIMI(LISTS("1, \"2\"", "3")), "linear_attn_config/kda_layers" },
        { KIMI("\"linear_attn_config\": {\"kda_layers\": [1, 2, 3]}"), "linear_attn_config/full_attn_layers" },
        { KIMI("\"linear_attn_config\": {\"kda_layers\": 7, \"full_attn_layers\": []}"),
          "linear_attn_config/kda_layers" },
        { KIMI("\"layer_types\": [\"linear_attention\", \"full_attention\"]"), "layer_types" },
        { KIMI("\"mlp_layer_types\": [\"dense\", \"sparse\", \"thin\"]"), "mlp_layer_types" },
        { KIMI("\"moe_layer_freq\": 2"), "moe_layer_freq" },
        { KIMI("\"moe_router_activation_func\": \"softmax\""), "moe_router_activation_func" },
        { KIMI("\"mla_use_nope\": false"), "mla_use_nope" },
        { KIMI("\"num_expert_group\": 3"), "num_expert_group" },
        { KIMI("\"linear_attn_config\": {\"head_dim\": 0}"), "linear_attn_config/head_dim" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
    lm_program *p = program(KIMI(LISTS("1, 3", "2")));
    assert_int_equal(p->n_caches, 1);
    assert_int_equal(p->caches[0].layer, 1);
    assert_true(first(p, LM_OP_LINEAR_RECURRENCE)->recurrence.spec.decay_by_channel);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(is_mixture(p, i), i >= 1);
    lm_program_free(p);
    p = program(KIMI("\"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"]"));
    assert_int_equal(p->n_caches, 0);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(is_mixture(p, i), i != 1);
    lm_program_free(p);
}

#define MINISTRAL(rope) \
    "{\"model_type\": \"ministral3\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 40" rope "}"
#define ROTATED(rest) MINISTRAL(", \"rope_parameters\": {\"rope_theta\": 10000.0" rest "}")
#define SCALED ", \"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 16"

/* The temperature of queries: its numbers, its default, and what is no temperature. */
static void temperature_of_ministral(void **state)
{
    static const rejected bad[] = {
        { ROTATED(SCALED), "rope_parameters/llama_4_scaling_beta" },
        { ROTATED(SCALED ", \"llama_4_scaling_beta\": -0.1"), "rope_parameters/llama_4_scaling_beta" },
        { ROTATED(SCALED ", \"llama_4_scaling_beta\": 1e9"), "rope_parameters/llama_4_scaling_beta" },
        { ROTATED(SCALED ", \"llama_4_scaling_beta\": \"much\""), "rope_parameters/llama_4_scaling_beta" },
        { ROTATED(", \"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 0, "
                  "\"llama_4_scaling_beta\": 0.1"), "rope_parameters/original_max_position_embeddings" },
        { ROTATED(", \"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1"), "rope_parameters" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
    lm_program *p = program(ROTATED(SCALED ", \"llama_4_scaling_beta\": 0.0"));
    for (uint32_t i = 0; i < p->n_nodes; i++)
        assert_int_not_equal(p->nodes[i].code, LM_OP_TEMPERATURE);
    lm_program_free(p);
    p = program(ROTATED(SCALED ", \"llama_4_scaling_beta\": 0.25"));
    assert_true(first(p, LM_OP_TEMPERATURE)->temperature.spec.beta == 0.25f);
    assert_int_equal(first(p, LM_OP_TEMPERATURE)->temperature.spec.length, 16);
    lm_program_free(p);
    p = program(MINISTRAL(""));                          /* as the class of transformers */
    assert_int_equal(first(p, LM_OP_TEMPERATURE)->temperature.spec.length, 16384);
    assert_true(p->ropes[0].spec.factor == 16 && p->ropes[0].spec.base == 1e6);
    lm_program_free(p);
}

#define SMALL4(rest) \
    "{\"model_type\": \"mistral4\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, \"kv_lora_rank\": 16, " \
    "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8, \"v_head_dim\": 12, \"q_lora_rank\": 16, " \
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16" rest "}"

/* Sizes that do not fit; the published rotation where a file has none, also in the scale of the scores. */
static void descriptions_of_mistral4(void **state)
{
    static const rejected bad[] = {
        { SMALL4(", \"n_group\": 3"), "n_group" },
        { SMALL4(", \"n_group\": 0"), "n_group" },
        { SMALL4(", \"n_group\": 8, \"topk_group\": 1"), "n_group" },
        { SMALL4(", \"partial_rotary_factor\": 0.25"), "partial_rotary_factor" },
        { SMALL4(", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2.0}"),
          "rope_parameters/llama_4_scaling_beta" },
        { SMALL4(", \"first_k_dense_replace\": -1"), "first_k_dense_replace" },
        { "{\"model_type\": \"mistral4\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 2, "
          "\"num_attention_heads\": 4, \"num_key_value_heads\": 2}", "num_key_value_heads" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
    lm_program *p        = program(SMALL4(", \"first_k_dense_replace\": 1"));
    double m = 0.1 * log(128) + 1;
    assert_int_equal(first(p, LM_OP_TEMPERATURE)->temperature.spec.length, 8192);
    assert_true(fabs((double)first(p, LM_OP_ATTENTION)->attention.spec.scale - m * m / 4) < 1e-6);
    assert_true(first(p, LM_OP_ROUTE)->route.spec.renormalise);
    assert_false(is_mixture(p, 0));
    assert_true(is_mixture(p, 1));
    lm_program_free(p);
}

#define LING(rest) \
    "{\"model_type\": \"bailing_hybrid\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 4, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, \"kv_lora_rank\": 16, " \
    "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 12, \"head_dim\": 8, \"n_group\": 2, " \
    "\"topk_group\": 1, \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, " \
    "\"layer_group_size\": 2" rest "}"

/* Switches of the published files that mean another computation, and sizes that do not fit. */
static void descriptions_of_ling(void **state)
{
    static const rejected bad[] = {
        { LING(", \"use_mla_nope\": true"), "use_mla_nope" },
        { LING(", \"no_kda_lora\": false"), "no_kda_lora" },
        { LING(", \"value_norm\": true"), "value_norm" },
        { LING(", \"gated_attention_proj_granularity_type\": \"element_wise\""),
          "gated_attention_proj_granularity_type" },
        { LING(", \"expert_swiglu_limit_list\": [7.0, 7.0, 7.0, 7.0]"), "expert_swiglu_limit_list" },
        { LING(", \"score_function\": \"softmax\""), "score_function" },
        { LING(", \"moe_shared_expert_intermediate_size\": 17"), "moe_shared_expert_intermediate_size" },
        { LING(", \"kda_lower_bound\": 0"), "kda_lower_bound" },
        { LING(", \"kda_lower_bound\": 5"), "kda_lower_bound" },
        { LING(", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}"), "rope_scaling" },
        { LING(", \"layer_types\": [\"linear_attention\"]"), "layer_types" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
    lm_program *p = program(LING(""));
    assert_int_equal(p->n_caches, 2);
    assert_true(first(p, LM_OP_DECAY)->decay.bound == -5.0f);
    assert_string_equal(p->weights[p->nodes[p->values[first(p, LM_OP_GLU)->in[0]].producer].weights[0]].gguf,
                        "blk.0.ssm_g_a.weight");
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(is_mixture(p, i), i >= 2);
    lm_program_free(p);
    p = program(LING(", \"kda_safe_gate\": false"));
    assert_true(first(p, LM_OP_DECAY)->decay.bound == 0);
    lm_program_free(p);
}

#define GLM(type, rest) \
    "{\"model_type\": \"" type "\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 3, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"intermediate_size\": 40, \"n_routed_experts\": 8, " \
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16" rest "}"
#define GLM_4 ", \"head_dim\": 12"
#define GLM_LITE ", \"q_lora_rank\": 8, \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 12"

/* Which layers are mixtures, what rotates, and values with another meaning. */
static void descriptions_of_glm(void **state)
{
    static const rejected bad[] = {
        { GLM("glm4_moe", GLM_4 ", \"scoring_func\": \"softmax\""), "scoring_func" },
        { GLM("glm4_moe", GLM_4 ", \"topk_method\": \"greedy\""), "topk_method" },
        { GLM("glm4_moe", GLM_4 ", \"n_group\": 3"), "n_group" },
        { GLM("glm4_moe", GLM_4 ", \"n_group\": 0"), "n_group" },
        { GLM("glm4_moe", GLM_4 ", \"partial_rotary_factor\": 0"), "partial_rotary_factor" },
        { GLM("glm4_moe_lite", GLM_LITE ", \"mlp_layer_types\": [\"dense\"]"), "mlp_layer_types" },
        { GLM("glm4_moe_lite", GLM_LITE ", \"mlp_layer_types\": [\"dense\", \"moe\", \"sparse\"]"), "mlp_layer_types" },
    };

    (void)state;
    are_rejected(bad, sizeof bad / sizeof *bad);
    lm_program *p = program(GLM("glm4_moe", GLM_4 ", \"first_k_dense_replace\": 2"));
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(is_mixture(p, i), i >= 2);
    assert_int_equal(p->ropes[0].spec.dim, 6);
    assert_int_equal(p->ropes[0].spec.pairing, LM_ROPE_HALF);
    lm_program_free(p);
    p = program(GLM("glm4_moe_lite", GLM_LITE
                    ", \"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"]"));
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(is_mixture(p, i), i != 1);
    assert_int_equal(p->ropes[0].spec.pairing, LM_ROPE_PAIR);
    lm_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts),
        cmocka_unit_test(the_magnitude_is_in_the_scores),
        cmocka_unit_test(dense_layers_are_where_the_file_puts_them),
        cmocka_unit_test(routes_match_the_version),
        cmocka_unit_test(other_sums_are_rejected),
        cmocka_unit_test(lists_of_layers_of_kimi),
        cmocka_unit_test(temperature_of_ministral),
        cmocka_unit_test(descriptions_of_mistral4),
        cmocka_unit_test(descriptions_of_ling),
        cmocka_unit_test(descriptions_of_glm),
        cmocka_unit_test(the_table_of_gpt3),
        cmocka_unit_test(gpt3_has_no_window_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
