/* olmo2.c - OLMo 2 (arXiv 2501.00656): norms after attention and MLP instead of before, q and k normalised
 * across all heads. */
#include "arch/families.h"

/* q and k are each normalised across all lanes. */
static lm_value olmo2_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, 1, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, 1, c->norm_eps);
    if (c->rope.dim)
        lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

lm_value lm_olmo2_parts(lm_builder *b, const lm_config *c, uint32_t layer, const char *norm, lm_value x)
{
    lm_value h = olmo2_attention(b, c, layer, x);
    x          = lm_add(b, x, lm_llama_norm(b, c, norm, h));
    h          = lm_llama_mlp(b, c, x);
    return lm_add(b, x, lm_llama_norm(b, c, "post_feedforward_layernorm", h));
}

static lm_value olmo2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return lm_olmo2_parts(b, c, layer, "post_attention_layernorm", x);
}

static lm_value olmo2_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmo2_layer });
}

static lm_status olmo2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    if (s->kind == LM_GGUF && c->attention.window)       /* OLMo 3, whose layers with a window rotate without
                                                            scaling */
        return lm_no_form(s, "olmo2.attention.sliding_window",
                          "layers with a window have no form in this family", e);
    return LM_OK;
}

const lm_family lm_family_olmo2 = {
    .name         = "olmo2",
    .class_prefix = "Olmo2",
    .hf_types     = (const char *const[]){ "olmo2", NULL },
    .gguf_archs   = (const char *const[]){ "olmo2", NULL },
    .pad_token    = "1",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = olmo2_configure,
    .build        = olmo2_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "rms_norm_eps", 1e-5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
