/* gemma3.c - Gemma 3, text (arXiv 2503.19786): Gemma 2's layer without soft caps, with each head of q and k
 * normalised. Five layers with a window are followed by one without; layers with a window have a different
 * rotation. */
#include "arch/families.h"

typedef struct gemma3 {
    lm_rope_spec local;              /* the rotation of layers with a window */
    double       local_base;
    float        cap;                /* of the logits; 0: none */
} gemma3;
LM_OWN_FITS(gemma3);

static lm_value norm_heads(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n_heads)
{
    lm_value y = lm_rms_norm_heads(b, name, x, n_heads, c->norm_eps);

    lm_stored_minus_one(b, y);
    return y;
}

static lm_value gemma3_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const gemma3 *own = lm_own(c);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = norm_heads(b, c, "q_norm", h.q, c->n_heads);
    h.k        = norm_heads(b, c, "k_norm", h.k, c->n_kv_heads);
    lm_rotate_heads(b, c, c->full[layer] ? &c->rope : &own->local, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value gemma3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return lm_gemma2_layer(b, c, layer, x, gemma3_attention);
}

static lm_value gemma3_build(lm_builder *b, const lm_config *c)
{
    static const lm_decoder decoder = {
        .model_class = "%sTextModel", .embed = lm_gemma_embed, .layer = gemma3_layer, .norm = lm_gemma_norm,
    };
    const gemma3 *own = lm_own(c);

    return lm_capped(b, lm_decoder_frame(b, c, &decoder), own->cap);
}

static const lm_own_number gemma3_own[] = {
    { "rope_local_base_freq", "rope.freq_base_swa", LM_OWN_F64, offsetof(gemma3, local_base), 1e-3, 1e30, 10000, true },
    { 0 },
};

static lm_status gemma3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma3     *own   = lm_family_config_mut(c);
    const char *every = lm_meta_has(s->meta, "_sliding_window_pattern") ? "_sliding_window_pattern"
                                                                        : "sliding_window_pattern";

    LM_TRY(lm_gemma_shape(s, "hidden_activation", c, e));
    LM_TRY(lm_read_own(s, gemma3_own, c, e));
    LM_TRY(lm_read_two_ropes(s, c->head_dim, 10000, own->local_base, c, &own->local, e));
    own->local_base = own->local.base;
    c->rope.pairing = own->local.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    LM_TRY(lm_gemma2_scores(s, 62, c, e));
    LM_TRY(lm_read_optional_f32(s, "attn_logit_softcapping", NULL, 0, &c->attention.softcap, e));
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", "final_logit_softcapping", 0, &own->cap, e));
    if (c->attention.softcap > 0)
        return lm_no_form(s, "attn_logit_softcapping", "this family does not cap its scores", e);
    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 4096, c, e));
    return lm_read_window_pattern(s, every, 6, c, e);
}

const lm_family lm_family_gemma3 = {
    .name         = "gemma3",
    .class_prefix = "Gemma3",
    .hf_types     = (const char *const[]){ "gemma3_text", NULL },
    .gguf_archs   = (const char *const[]){ "gemma3", NULL },
    .pad_token    = "0",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = gemma3_configure,
    .build        = gemma3_build,
    .own          = gemma3_own,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 131072 },
                                          { "rope_theta", 1e6 }, { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias", "query_pre_attn_scalar", "sliding_window",
                                           "layer_types", "attn_logit_softcapping", "final_logit_softcapping", "cache_implementation",
                                           "use_bidirectional_attention", "sliding_window_pattern", "_sliding_window_pattern",
                                           "rope_local_base_freq", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
