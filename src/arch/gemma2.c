/* gemma2.c - Gemma 2 (arXiv 2408.00118): norms before and after attention and MLP, soft caps on scores and
 * logits, a window in every other layer, a separate scale of the scores; VaultGemma (arXiv 2510.15001): the
 * same without the norms after. */
#include <math.h>

#include "arch/families.h"

typedef struct gemma2 { float cap; } gemma2;     /* of the logits; 0: none */
LM_OWN_FITS(gemma2);

lm_value lm_gemma2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x,
                         lm_layer_builder *attention)
{
    lm_value h = lm_gemma_norm(b, c, "input_layernorm", x);
    h          = attention(b, c, layer, h);
    x          = lm_add(b, x, lm_gemma_norm(b, c, "post_attention_layernorm", h));
    h          = lm_gemma_norm(b, c, "pre_feedforward_layernorm", x);
    h          = lm_llama_mlp(b, c, h);
    return lm_add(b, x, lm_gemma_norm(b, c, "post_feedforward_layernorm", h));
}

static lm_value gemma2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return lm_gemma2_layer(b, c, layer, x, lm_llama_attention);
}

lm_value lm_capped(lm_builder *b, lm_value logits, float cap)
{
    return cap > 0 ? lm_softcap(b, logits, cap) : logits;
}

static lm_value vault_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_gemma_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h = lm_gemma_norm(b, c, "pre_feedforward_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value capped_frame(lm_builder *b, const lm_config *c, lm_layer_builder *layer)
{
    const gemma2 *own    = lm_own(c);
    lm_value      logits = lm_decoder_frame(
        b, c, &(lm_decoder){ .embed = lm_gemma_embed, .layer = layer, .norm = lm_gemma_norm });

    return lm_capped(b, logits, own->cap);
}

static lm_value gemma2_build(lm_builder *b, const lm_config *c)
{
    return capped_frame(b, c, gemma2_layer);
}

static lm_value vault_build(lm_builder *b, const lm_config *c)
{
    return capped_frame(b, c, vault_layer);
}

lm_status lm_gemma2_scores(const lm_source *s, uint32_t largest, lm_config *c, lm_error *e)
{
    float scalar;

    LM_TRY(lm_read_f32(s, "query_pre_attn_scalar", NULL, 1e-3, 1e9, 256, &scalar, e));
    /* GGUF may omit it: llama.cpp recognises the largest model, whose scale is that of hidden / heads, by its
     * number of layers */
    if (s->kind == LM_GGUF)
        scalar = c->n_layers == largest ? (float)c->hidden / (float)c->n_heads : (float)c->head_dim;
    return lm_read_f32(s, NULL, "attention.scale", 1e-9, 1e9, (double)(1 / sqrtf(scalar)),
                       &c->attention.scale, e);
}

static lm_status gemma2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma2 *own = lm_family_config_mut(c);

    LM_TRY(lm_gemma_configure(s, "hidden_activation", c, e));
    LM_TRY(lm_gemma2_scores(s, 46, c, e));
    LM_TRY(lm_read_optional_f32(s, "attn_logit_softcapping", "attn_logit_softcapping", 50,
                                &c->attention.softcap, e));
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", "final_logit_softcapping", 30, &own->cap, e));
    LM_TRY(lm_read_window(s, 4096, c, e));
    return lm_read_window_pattern(s, NULL, 2, c, e);
}

const lm_name lm_gemma2_names[] = {
    LM_GEMMA2_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_gemma2 = {
    .name         = "gemma2",
    .class_prefix = "Gemma2",
    .hf_types     = (const char *const[]){ "gemma2", NULL },
    .gguf_archs   = (const char *const[]){ "gemma2", NULL },
    .pad_token    = "0",
    .configure    = gemma2_configure,
    .build        = gemma2_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias", "query_pre_attn_scalar", "sliding_window",
                                           "layer_types", "attn_logit_softcapping", "final_logit_softcapping", "cache_implementation",
                                           "use_bidirectional_attention", "sliding_window_size", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_vaultgemma = {
    .name         = "vaultgemma",
    .class_prefix = "VaultGemma",
    .hf_types     = (const char *const[]){ "vaultgemma", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .pad_token    = "0",
    .configure    = gemma2_configure,
    .build        = vault_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias",
                                           "query_pre_attn_scalar", "sliding_window", "layer_types",
                                           "attn_logit_softcapping", "final_logit_softcapping", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
