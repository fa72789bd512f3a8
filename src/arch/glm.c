/* glm.c - GLM-4 (arXiv 2406.12793): Llama's decoder with half of each head's lanes rotated, in adjacent
 * pairs, biases on q, k and v, gate and up in one projection. The models of 2025 (model_type glm4) also have
 * norms after attention and MLP. */
#include "arch/families.h"

typedef struct glm { bool post_norms; } glm;     /* also has norms after attention and MLP */
LM_OWN_FITS(glm);

lm_value lm_fused_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value both = lm_linear(b, "gate_up_proj", x, 2 * c->intermediate, false);
    lm_value gate = lm_columns(b, "gate", both, 1, 0, c->intermediate);
    lm_value up   = lm_columns(b, "up", both, 1, c->intermediate, c->intermediate);
    lm_value down = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return down;
}

static lm_value glm_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const glm *own = lm_own(c);
    lm_value   h   = lm_llama_norm(b, c, "input_layernorm", x);
    h = lm_llama_attention(b, c, layer, h);
    x = lm_add(b, x, own->post_norms ? lm_llama_norm(b, c, "post_self_attn_layernorm", h) : h);
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    h = lm_fused_mlp(b, c, h);
    return lm_add(b, x, own->post_norms ? lm_llama_norm(b, c, "post_mlp_layernorm", h) : h);
}

static lm_value glm_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = glm_layer });
}

static lm_status glm_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.5, c, &lanes, e));
    LM_TRY(lm_llama_rotation(s, lanes, c, e));
    c->bias_o        = false;
    c->rope.pairing  = LM_ROPE_PAIR;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

static lm_status glm4_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    glm *own = lm_family_config_mut(c);

    own->post_norms = true;
    return glm_configure(s, c, e);
}

static const lm_name glm_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_self_attn_layernorm", "blk.*.post_attention_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { "model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm" },
    { NULL, NULL },
};

const lm_family lm_family_glm = {
    .name         = "glm",
    .class_prefix = "Glm",
    .hf_types     = (const char *const[]){ "glm", NULL },
    .gguf_archs   = (const char *const[]){ "chatglm", NULL },
    .act_name     = "activation_fn",
    .pad_token    = "151329",
    .configure    = glm_configure,
    .build        = glm_build,
    .names        = glm_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1.5625e-7 }, { "attention_bias", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "partial_rotary_factor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_glm4 = {
    .name         = "glm4",
    .class_prefix = "Glm4",
    .hf_types     = (const char *const[]){ "glm4", NULL },
    .gguf_archs   = (const char *const[]){ "glm4", NULL },
    .orders       = (const lm_order[]){ { "DecoderLayer",
                                          "self_attn mlp input_layernorm post_attention_layernorm *" },
                                          { NULL, NULL } },
    .act_name     = "activation_fn",
    .pad_token    = "151329",
    .configure    = glm4_configure,
    .build        = glm_build,
    .names        = glm_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1.5625e-7 }, { "attention_bias", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "partial_rotary_factor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
