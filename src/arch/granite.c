/* granite.c - Granite 3 (IBM, 2024): Llama's decoder with four multipliers. The scale of the scores replaces 1/sqrt(D), and
 * the logits are divided. */
#include "arch/families.h"

static lm_value granite_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_rms_norm(b, "input_layernorm", x, c->norm_eps);
    x          = lm_add(b, x, lm_scale(b, lm_llama_attention(b, c, layer, h), c->residual_scale));
    h          = lm_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
    return lm_add(b, x, lm_scale(b, lm_llama_mlp(b, c, h), c->residual_scale));
}

static lm_value granite_build(lm_builder *b, const lm_config *c)
{
    return lm_llama_frame(b, c, granite_layer);
}

/* GGUF leaves a multiplier of 1 out, and writes none for the scores where the file gives none. */
lm_status lm_granite_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    float scores;

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_f32(s, "embedding_multiplier", "embedding_scale", 1e-6, 1e6, 1, &c->embedding_scale, e));
    LM_TRY(lm_read_f32(s, "residual_multiplier", "residual_scale", 1e-6, 1e6, 1, &c->residual_scale, e));
    LM_TRY(lm_read_f32(s, "logits_scaling", "logit_scale", 1e-6, 1e6, 1, &c->logit_divisor, e));
    LM_TRY(lm_read_f32(s, "attention_multiplier", "attention.scale", 1e-6, 1e6, s->kind == LM_GGUF ? (double)c->attention.scale : 1,
                       &scores, e));
    c->attention.scale = scores;
    return LM_OK;
}

const lm_family lm_family_granite = {
    .name         = "granite",
    .class_prefix = "Granite",
    .hf_types     = (const char *const[]){ "granite", NULL },
    .gguf_archs   = (const char *const[]){ "granite", NULL },
    .configure    = lm_granite_configure,
    .build        = granite_build,
    .names        = lm_llama_names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "embedding_multiplier", "residual_multiplier",
                                           "attention_multiplier", "logits_scaling", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};
