/* qwen2.c - Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115): Llama's decoder with biases on q, k and v, and
 * windows in the upper layers if enabled. Rotary lanes are halves in both containers. Seed-OSS (ByteDance,
 * 2025) is the same without windows, and with a switch for each bias. */
#include "arch/families.h"

/* Without layer_types, use_sliding_window enables the window from layer max_window_layers upwards. */
lm_status lm_qwen_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t first;
    bool     on;

    LM_TRY(lm_read_bool(s, "use_sliding_window", NULL, false, &on, e));
    if (!on)
        return LM_OK;
    LM_TRY(lm_read_window(s, 4096, c, e));
    LM_TRY(lm_read_u32(s, "max_window_layers", NULL, 0, LM_MAX_LAYERS, 28, &first, e));
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "layer_types"); i++)
        c->full[i] = i < first;
    return LM_OK;
}

static lm_status qwen2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_qkv      = true;
    c->bias_o        = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return lm_qwen_windows(s, c, e);
}

const lm_family lm_family_qwen2 = {
    .name         = "qwen2",
    .class_prefix = "Qwen2",
    .hf_types     = (const char *const[]){ "qwen2", NULL },
    .gguf_archs   = (const char *const[]){ "qwen2", NULL },
    .configure    = qwen2_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "max_position_embeddings", 32768 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "use_sliding_window", "sliding_window", "max_window_layers", "layer_types",
                                           "use_mrope", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

typedef struct seed_oss { bool bias_o; } seed_oss;
LM_OWN_FITS(seed_oss);

static const lm_own_number seed_oss_own[] = {
    { "attention_out_bias", NULL, LM_OWN_BOOL, offsetof(seed_oss, bias_o), 0, 1, 0, false },
    { 0 },
};

static lm_status seed_oss_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    seed_oss *own = lm_family_config_mut(c);

    LM_TRY(lm_llama_configure(s, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_read_own(s, seed_oss_own, c, e));
    if (s->kind == LM_GGUF)
        own->bias_o = c->bias_o;
    c->bias_o = own->bias_o;
    return LM_OK;
}

const lm_family lm_family_seed_oss = {
    .name         = "seed_oss",
    .class_prefix = "SeedOss",
    .hf_types     = (const char *const[]){ "seed_oss", NULL },
    .gguf_archs   = (const char *const[]){ "seed_oss", NULL },
    .pad_token    = "1",
    .configure    = seed_oss_configure,
    .build        = lm_llama_build,
    .own          = seed_oss_own,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 524288 }, { "attention_bias", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "attention_out_bias", "mlp_bias",
                                           "pretraining_tp", "residual_dropout", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
