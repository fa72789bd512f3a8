/* describe.c - from published configurations to published counts; and which descriptions are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "study/facts/ledger.h"
#include "descriptions.h"

#define LLAMA(rest)                                                                                          \
"{\"model_type\": \"llama\", \"vocab_size\": 128256, \"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 131072, "\
                    "\"rope_theta\": 500000.0, \"num_key_value_heads\": 8, " rest "}"
#define OF_1B LLAMA("\"hidden_size\": 2048, \"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, " \
                    "\"tie_word_embeddings\": true")
#define OF_3B LLAMA("\"hidden_size\": 3072, \"intermediate_size\": 8192, \"num_hidden_layers\": 28, \"num_attention_heads\": 24, " \
                    "\"tie_word_embeddings\": true")
#define OF_8B LLAMA("\"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, " \
                    "\"tie_word_embeddings\": false")
#define GRANITE_CODE_3B "{\"model_type\": \"llama\", \"vocab_size\": 49152, \"hidden_size\": 2560, \"intermediate_size\": 10240, " \
                    "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"attention_bias\": true, \"mlp_bias\": true, " \
                    "\"tie_word_embeddings\": true}"

/* parameters, parameters if untied, FLOPs of matrix products per token, FLOPs added per token of context,
 * bytes of F16 cache per token */
static void published_counts(void **state)
{
    static const struct {
        const char *json;
        uint64_t    total, untied, flops, per_context, kv;
    } models[] = {
        { OF_1B, 1235814400, 1498482688, 2471493632, 131072, 32768 },
        { OF_3B, 3212749824, 3606752256, 6425149440, 344064, 114688 },
        { OF_8B, 8030261248, 8030261248, 15009316864, 524288, 131072 },
        { GRANITE_CODE_3B, 3482503680, 3608332800, 6962544640, 327680, 327680 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        lm_program         *p = NULL;
        lm_error            e;
        lm_parameter_counts n;
        lm_flop_counts      f;
        lm_kv_counts        kv;
        uint64_t            sum = 0;
        if (describe(models[i].json, &p, NULL, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        lm_ledger *l = NULL;
        assert_int_equal(lm_ledger_new(p, &l, NULL), LM_OK);
        lm_count_parameters(l, &n);
        lm_ledger_free(l);
        lm_count_flops(p, &f);
        lm_count_kv(p, (lm_cache_types){ LM_F16, LM_F16 }, 4096, 1, &kv);
        assert_int_equal(n.total, models[i].total);
        assert_int_equal(n.untied_total, models[i].untied);
        for (int k = 0; k < LM_PARTS; k++)
            sum += n.part[k];
        assert_int_equal(sum, n.total);
        assert_int_equal(f.per_token_matmul, models[i].flops);
        assert_int_equal(f.per_context_token, models[i].per_context);
        assert_int_equal(kv.bytes_per_token, models[i].kv);
        assert_int_equal(kv.bytes_at_context, models[i].kv * 4096);
        assert_int_equal(lm_flops_at(p, 4096), models[i].flops + 4096 * models[i].per_context);
        lm_program_free(p);
    }
}

#define SMALL(more)                                                                                 \
"{\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 64, " \
                    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4" more "}"

#define MPT(attn, more)                                                                             \
"{\"model_type\": \"mpt\", \"vocab_size\": 100, \"d_model\": 32, \"n_heads\": 4, \"n_layers\": 2, " \
                        "\"attn_config\": " attn more "}"
#define FALCON(more)                                                                                \
"{\"model_type\": \"falcon\", \"vocab_size\": 100, \"hidden_size\": 32, \"num_hidden_layers\": 2, " \
                     "\"num_attention_heads\": 4" more "}"
#define COHERE2(more)                                                                                 \
"{\"model_type\": \"cohere2\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 64, " \
                      "\"num_hidden_layers\": 2, \"num_attention_heads\": 4" more "}"
#define XGLM(more)                                                                                           \
"{\"model_type\": \"xglm\", \"vocab_size\": 100, \"d_model\": 32, \"num_layers\": 2, \"attention_heads\": 4, "\
                   "\"ffn_dim\": 64" more "}"
/* transformers gives every layer of Mixtral the window, whatever layer_types says. */
#define MIXTRAL(more)                                                                                 \
"{\"model_type\": \"mixtral\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 64, " \
                      "\"num_hidden_layers\": 2, \"num_attention_heads\": 4" more "}"
#define GPTJ(more) \
    "{\"model_type\": \"gptj\", \"vocab_size\": 100, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4" more "}"

/* Each is rejected with an error that names the member. */
static void wrong_descriptions_are_rejected(void **state)
{
    static const struct { const char *json, *where;
    } bad[] = {
        { "{\"model_type\": \"parrot\"}", "model_type" },
        { "{\"vocab_size\": 5}", "model_type" },
        { SMALL(", \"num_key_value_heads\": 3"), "num_key_value_heads" },
        { SMALL(", \"num_key_value_heads\": 0"), "num_key_value_heads" },
        { SMALL(", \"num_key_value_heads\": 8"), "num_key_value_heads" },
        { SMALL(", \"head_dim\": 7"), "head_dim" },
        { SMALL(", \"rms_norm_eps\": 0"), "rms_norm_eps" },
        { SMALL(", \"rms_norm_eps\": \"small\""), "rms_norm_eps" },
        { SMALL(", \"hidden_act\": \"sparkle\""), "hidden_act" },
        { SMALL(", \"rope_theta\": -1"), "rope_theta" },
        { SMALL(", \"rope_theta\": NaN"), "rope_theta" },
        { SMALL(", \"rope_theta\": Infinity"), "rope_theta" },
        { SMALL(", \"rms_norm_eps\": NaN"), "rms_norm_eps" },
        { SMALL(", \"rope_scaling\": {\"rope_type\": \"twist\", \"factor\": 2}"), "rope_scaling/rope_type" },
        { SMALL(", \"rope_scaling\": {\"rope_type\": \"linear\"}"), "rope_scaling/factor" },
        { SMALL(", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}"), "rope_scaling/factor" },
        { SMALL(", \"rope_scaling\": 3"), "rope_scaling" },
        { SMALL(", \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 4, \"short_factor\": [1], "
                "\"long_factor\": [1], \"original_max_position_embeddings\": 64}"),
          "rope_scaling/short_factor" },
        { SMALL(", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}"),
          "rope_parameters/full_attention" },
        { SMALL(", \"attn_logit_softcapping\": 30.0"), "attn_logit_softcapping" },
        { SMALL(", \"num_local_experts\": 8"), "num_local_experts" },
        { MPT("{\"alibi\": false}", ""), "attn_config/alibi" },
        { MPT("{\"attn_type\": \"multiquery_attention\"}", ""), "attn_config/attn_type" },
        { MPT("{\"qk_ln\": true}", ""), "attn_config/qk_ln" },
        { MPT("{\"prefix_lm\": true}", ""), "attn_config/prefix_lm" },
        { MPT("{\"kv_n_heads\": 2}", ""), "attn_config/kv_n_heads" },
        { MPT("{\"clip_qkv\": -1}", ""), "attn_config/clip_qkv" },
        { MPT("7", ""), "attn_config" },
        { MPT("{}", ", \"no_bias\": false"), "no_bias" },
        { MPT("{}", ", \"expansion_ratio\": 3"), "expansion_ratio" },
        { MPT("{}", ", \"logit_scale\": 0.5"), "logit_scale" },
        { FALCON(", \"new_decoder_architecture\": true, \"parallel_attn\": false"), "parallel_attn" },
        { FALCON(", \"new_decoder_architecture\": true, \"num_kv_heads\": 3"), "num_kv_heads" },
        { FALCON(", \"num_ln_in_parallel_attn\": 2"), "num_ln_in_parallel_attn" },
        { FALCON(", \"apply_residual_connection_post_layernorm\": true"),
          "apply_residual_connection_post_layernorm" },
        { COHERE2(", \"sliding_window\": null"), "sliding_window" },
        { COHERE2(", \"rotary_pct\": 0.5"), "rotary_pct" },
        { XGLM(", \"pad_token_id\": 2"), "pad_token_id" },
        { GPTJ(""), "rotary_dim" },
        { MIXTRAL(", \"layer_types\": [\"sliding_attention\", \"full_attention\"]"), "layer_types" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_program *p = NULL;
        lm_error    e;
        lm_status   s = describe(bad[i].json, &p, NULL, &e);
        if ((s != LM_BAD_MODEL && s != LM_UNSUPPORTED) || strcmp(e.where, bad[i].where) != 0 ||
            strcmp(e.file, "config.json") != 0)
            fail_msg("%s: status %s, where \"%s\", file \"%s\", %s", bad[i].json, lm_status_word(s), e.where,
                     e.file, e.message);
    }
}

/* Converted files of Mistral 7B v0.1 do not store its window; later versions have a different rotary base and
 * no window. */
static void a_window_found_by_its_shape(void **state)
{
    static const struct {
        const char *base, *more;
        int64_t     window_option;
        uint32_t    window;
        bool        mentioned;
    } cases[] = {
        { "10000.0", "", 0, 4096, true },
        { "1000000.0", "", 0, 0, false },
        { "10000.0", ", \"llama.attention.sliding_window\": 512", 0, 512, false },
        { "10000.0", "", 128, 128, false },
        { "10000.0", "", -1, 0, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static lm_config c;
        lm_meta         *meta = NULL;
        const lm_family *f;
        lm_program      *p        = NULL;
        lm_text           warnings = { 0 };
        lm_error         e        = { 0 };
        char             json[800];
        snprintf(json, sizeof json,
                 "{\"general.architecture\": \"llama\", \"llama.vocab_size\": 32000, "
                 "\"llama.embedding_length\": 4096, \"llama.block_count\": 32, "
                 "\"llama.feed_forward_length\": 14336, \"llama.attention.head_count\": 32, "
                 "\"llama.attention.head_count_kv\": 8, \"llama.context_length\": 32768, "
                 "\"llama.rope.freq_base\": %s, \"llama.attention.layer_norm_rms_epsilon\": 1e-5%s}",
                 cases[i].base, cases[i].more);
        assert_int_equal(lm_meta_from_json(json, strlen(json), "keys", 16, &meta, &e), LM_OK);
        lm_source s = { .kind = LM_GGUF, .meta = meta, .sliding_window = cases[i].window_option };
        if (lm_describe(&s, &f, &c, &p, &warnings, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        for (uint32_t k = 0; k < p->n_caches; k++)
            assert_int_equal(p->caches[k].window, cases[i].window);
        assert_int_equal(warnings.size && strstr(warnings.data, "its shape does") != NULL,
                         cases[i].mentioned);
        lm_text_free(&warnings);
        lm_program_free(p);
        lm_meta_free(meta);
    }
}

/* Two dictionaries, or one without its required type, are read as transformers does, with a warning where
 * that loses something. */
static void rotations_that_need_a_word(void **state)
{
#define TYPED(type, more) "{\"rope_type\": \"" type "\"" more "}"
    static const struct {
        const char *json;
        lm_rope_type type;
        double factor, base;
        const char *warning;
    } cases[] = {
        { SMALL(", \"rope_scaling\": {}"), LM_ROPE_DEFAULT, 1, 10000, NULL },
        { SMALL(", \"rope_parameters\": {}"), LM_ROPE_DEFAULT, 1, 10000, NULL },
        { SMALL(", \"rope_scaling\": {\"rope_theta\": 500}"), LM_ROPE_DEFAULT, 1, 500, NULL },
        { SMALL(", \"rope_scaling\": {\"factor\": 2}"), LM_ROPE_DEFAULT, 2, 10000,
          "rope_scaling/factor has no effect: there is no rope_type to which it belongs\n" },
        { SMALL(", \"rope_scaling\": {}, \"rope_parameters\": " TYPED("linear", ", \"factor\": 4")),
          LM_ROPE_LINEAR, 4, 10000, NULL },
        { SMALL(", \"rope_scaling\": null, \"rope_parameters\": " TYPED("linear", ", \"factor\": 4")),
          LM_ROPE_LINEAR, 4, 10000, NULL },
        { SMALL(", \"rope_theta\": 500, \"rope_scaling\": " TYPED("linear", ", \"factor\": 4")
                ", \"rope_parameters\": " TYPED("linear", ", \"factor\": 4, \"rope_theta\": 500")),
          LM_ROPE_LINEAR, 4, 500, NULL },
        { SMALL(", \"rope_scaling\": " TYPED("linear", ", \"factor\": 4") ", \"rope_parameters\": " TYPED(
              "linear", ", \"factor\": 4, \"rope_theta\": 500")),
          LM_ROPE_LINEAR, 4, 10000,
          "rope_scaling and rope_parameters differ: rope_scaling is taken, as transformers does\n" },
        { SMALL(", \"rope_scaling\": " TYPED("linear", ", \"factor\": 4") ", \"rope_parameters\": " TYPED(
              "default", "")),
          LM_ROPE_LINEAR, 4, 10000,
          "rope_scaling and rope_parameters differ: rope_scaling is taken, as transformers does\n" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_text warnings = { 0 };
        lm_program *p = NULL;
        lm_error e;

        if (describe(cases[i].json, &p, &warnings, &e) != LM_OK)
            fail_msg("%s: %s: %s", cases[i].json, e.where, e.message);
        const lm_rope_spec *r = &p->ropes[0].spec;
        if (r->type != cases[i].type || r->factor != cases[i].factor || r->base != cases[i].base)
            fail_msg("%s: type %d, factor %g, base %g", cases[i].json, (int)r->type, r->factor, r->base);
        if (strcmp(warnings.size ? warnings.data : "", cases[i].warning ? cases[i].warning : "") != 0)
            fail_msg("%s: %s", cases[i].json, warnings.size ? warnings.data : "no warning");
        lm_text_free(&warnings);
        lm_program_free(p);
    }
}

/* A member that enables nothing is harmless; an unknown one is mentioned. */
static void unknown_members_are_mentioned(void **state)
{
    lm_text warnings = { 0 };
    lm_program *p = NULL;
    lm_error e;

    (void)state;
    assert_int_equal(
        describe(SMALL(", \"attn_logit_softcapping\": null, \"num_local_experts\": 0, \"sparkle\": 7"), &p,
                 &warnings, &e),
        LM_OK);
    assert_string_equal(warnings.data, "config key \"sparkle\" is not known and has no effect\n");
    lm_text_free(&warnings);
    lm_program_free(p);
    /* As in DeepSeek-V3's own config.json, without its FP8 weights: the model is the same. tests/bad has one
     * with weights. */
    assert_int_equal(describe(SMALL(", \"quantization_config\": {\"quant_method\": \"fp8\"}"), &p, &warnings,
                              &e),
                     LM_OK);
    assert_non_null(strstr(warnings.data, "the published weights are quantised by fp8"));
    lm_text_free(&warnings);
    lm_program_free(p);
}

/* transformers' ALiBi slopes are those of alibi_bias_max 8, whatever the file says. */
static void ineffective_keys_are_mentioned(void **state)
{
    static const struct {
        const char *json, *warning;
    } files[] = {
        { MPT("{\"alibi_bias_max\": 8}", ""), NULL },
        { MPT("{\"alibi_bias_max\": 16}", ""),
          "alibi_bias_max has no effect in folders: transformers' slopes are those of 8\n" },
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        lm_text warnings = { 0 };
        lm_program *p = NULL;
        lm_error e;

        assert_int_equal(describe(files[i].json, &p, &warnings, &e), LM_OK);
        if (files[i].warning)
            assert_string_equal(warnings.data, files[i].warning);
        else
            assert_int_equal(warnings.size, 0);
        for (uint32_t k = 0; k < p->n_nodes; k++)
            if (p->nodes[k].code == LM_OP_ATTENTION)
                assert_true(p->nodes[k].attention.spec.alibi == 8);
        lm_text_free(&warnings);
        lm_program_free(p);
    }
}

/* A model that is not known is named by its type and by its class. */
static void unknown_models_are_named(void **state)
{
    static const struct { const char *json, *said; } cases[] = {
        { "{\"architectures\": [\"ParrotForCausalLM\"]}", "missing, expected the family of ParrotForCausalLM" },
        { "{\"model_type\": \"parrot\", \"architectures\": [\"ParrotForCausalLM\"]}",
          "unknown model family \"parrot\", class ParrotForCausalLM (supported: " },
        { "{\"model_type\": \"parrot\", \"architectures\": []}", "unknown model family \"parrot\" (supported: " },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_program *p = NULL;
        lm_error    e;
        assert_int_not_equal(describe(cases[i].json, &p, NULL, &e), LM_OK);
        if (!strstr(e.message, cases[i].said))
            fail_msg("%s: %s", cases[i].json, e.message);
    }
}

/* model_type decides; a class of another family is mentioned. */
static void contradicting_classes_are_mentioned(void **state)
{
    static const struct { const char *class, *warning; } cases[] = {
        { "LlamaForCausalLM", NULL },
        { "FastLlamaForCausalLM", NULL },
        { "LlamaForSequenceClassification", NULL },
        { "Qwen3ForCausalLM",
          "architectures names Qwen3ForCausalLM, a class of family qwen3; the model is read as model_type "
          "says: llama\n" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char        json[256];
        lm_text     warnings = { 0 };
        lm_program *p = NULL;
        lm_error    e;

        snprintf(json, sizeof json,
                 "{\"model_type\": \"llama\", \"architectures\": [\"%s\"], \"hidden_size\": 8, "
                 "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 8, "
                 "\"vocab_size\": 16}",
                 cases[i].class);
        assert_int_equal(describe(json, &p, &warnings, &e), LM_OK);
        if (cases[i].warning)
            assert_string_equal(warnings.data, cases[i].warning);
        else
            assert_int_equal(warnings.size, 0);
        lm_text_free(&warnings);
        lm_program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contradicting_classes_are_mentioned),
        cmocka_unit_test(unknown_models_are_named),
        cmocka_unit_test(published_counts),
        cmocka_unit_test(wrong_descriptions_are_rejected),
        cmocka_unit_test(a_window_found_by_its_shape),
        cmocka_unit_test(rotations_that_need_a_word),
        cmocka_unit_test(unknown_members_are_mentioned),
        cmocka_unit_test(ineffective_keys_are_mentioned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
