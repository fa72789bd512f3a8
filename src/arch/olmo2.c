/* olmo2.c - OLMo 2 (arXiv 2501.00656): norms after attention and MLP instead of before, q and k normalised
 * across all heads; and OLMo 3, which has a window in three of four layers, whose rotation is never
 * scaled; and FlexOlmo (2507.07024), OLMo 2 with OLMoE's mixtures. */
#include "arch/families.h"

/* OLMo 3 */
typedef struct olmo3 { lm_rope_spec local; } olmo3;      /* the rotation of layers with a window */
LM_OWN_FITS(olmo3);

lm_value lm_olmo2_attention(lm_builder *b, const lm_config *c, uint32_t layer, const lm_rope_spec *rope,
                            lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, 1, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, 1, c->norm_eps);
    if (rope->dim)
        lm_rotate_heads(b, c, rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value parts(lm_builder *b, const lm_config *c, uint32_t layer, const lm_rope_spec *rope,
                      const char *norm, lm_value x)
{
    lm_value h = lm_olmo2_attention(b, c, layer, rope, x);
    x          = lm_add(b, x, lm_llama_norm(b, c, norm, h));
    h          = lm_llama_mlp(b, c, x);
    return lm_add(b, x, lm_llama_norm(b, c, "post_feedforward_layernorm", h));
}

lm_value lm_olmo2_parts(lm_builder *b, const lm_config *c, uint32_t layer, const char *norm, lm_value x)
{
    return parts(b, c, layer, &c->rope, norm, x);
}

static lm_value olmo3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const olmo3 *own = lm_own(c);

    return parts(b, c, layer, c->full[layer] ? &c->rope : &own->local, "post_attention_layernorm", x);
}

static lm_value olmo3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmo3_layer });
}

static lm_value olmo2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return lm_olmo2_parts(b, c, layer, "post_attention_layernorm", x);
}

static lm_value olmo2_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmo2_layer });
}

static lm_value flex_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_olmo2_attention(b, c, layer, &c->rope, x);

    x = lm_add(b, x, lm_llama_norm(b, c, "post_attention_layernorm", h));
    h = lm_qwen_moe(b, c, false, x);
    return lm_add(b, x, lm_llama_norm(b, c, "post_feedforward_layernorm", h));
}

static lm_value flex_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = flex_layer });
}

static lm_status olmo2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

static lm_status flex_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(olmo2_configure(s, c, e));
    c->expert_width = c->intermediate;
    return lm_read_routing(s, false, c, e);
}

/* Without its own base, a window's rotation has that of the others. (transformers 5 takes 500000 instead of
 * rope_theta for folders without rope_parameters, which is the same for published models.) */
static lm_status olmo3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    olmo3 *own = lm_family_config_mut(c);
    float  base;

    LM_TRY(lm_llama_shape(s, c, e));
    c->bias_mlp = false;
    LM_TRY(lm_read_two_ropes(s, c->head_dim, 500000, 500000, c, &own->local, e));
    if (!lm_meta_has(s->meta, "rope_parameters/sliding_attention"))
        own->local.base = c->rope.base;
    LM_TRY(lm_read_f32(s, NULL, "rope.freq_base_swa", 1e-3, 1e30, own->local.base, &base, e));
    if (s->kind == LM_GGUF && base != (float)c->rope.base)
        return lm_no_form(s, "olmo2.rope.freq_base_swa", "is not rope.freq_base, which has no form in this family",
                          e);
    c->rope.pairing = own->local.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    LM_TRY(lm_read_window(s, 4096, c, e));
    return lm_read_window_pattern(s, NULL, 4, c, e);
}

static const lm_order orders[] = { { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } };

const lm_family lm_family_olmo2 = {
    .name         = "olmo2",
    .class_prefix = "Olmo2",
    .hf_types     = (const char *const[]){ "olmo2", NULL },
    .gguf_archs   = (const char *const[]){ "olmo2", NULL },
    .pad_token    = "1",
    .orders       = orders,
    .configure    = olmo2_configure,
    .build        = olmo2_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "rms_norm_eps", 1e-5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_olmo3 = {
    .name         = "olmo3",
    .class_prefix = "Olmo3",
    .hf_types     = (const char *const[]){ "olmo3", NULL },
    .gguf_archs   = (const char *const[]){ "olmo2", NULL },
    .gguf_key     = "attention.sliding_window",
    .pad_token    = "1",
    .orders       = orders,
    .configure    = olmo3_configure,
    .build        = olmo3_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "rms_norm_eps", 1e-5 }, { "rope_theta", 500000 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "sliding_window", "layer_types",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

static const lm_name flex_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" },
    { "model.layers.*.mlp.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.mlp.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm" },
    { NULL, NULL },
};

const lm_family lm_family_flex_olmo = {
    .name         = "flex_olmo",
    .class_prefix = "FlexOlmo",
    .hf_types     = (const char *const[]){ "flex_olmo", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .pad_token    = "100277",
    .orders       = orders,
    .configure    = flex_configure,
    .build        = flex_build,
    .names        = flex_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { "rope_theta", 500000 },
                                          { "num_experts", 7 }, { "num_experts_per_tok", 5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "num_experts", "num_local_experts",
                                           "num_experts_per_tok", "norm_topk_prob", "router_aux_loss_coef",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
