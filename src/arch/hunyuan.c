/* hunyuan.c - Hunyuan dense (Tencent, 2025): Llama's decoder with each head of q and k normalised after the
 * rotation, whose base may be stretched once and for all by a factor, alpha. */
#include <math.h>

#include "arch/families.h"

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    h.q        = lm_rms_norm_heads(b, "query_layernorm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "key_layernorm", h.k, c->n_kv_heads, c->norm_eps);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value hunyuan_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, lm_llama_mlp(b, c, lm_llama_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value hunyuan_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = hunyuan_layer });
}

/* Checkpoints call it "dynamic", but with alpha it does not depend on the length. GGUF stores the stretched
 * base. */
static lm_status read_alpha(const lm_source *s, lm_config *c, lm_error *e)
{
    const char *key = lm_meta_has(s->meta, "rope_scaling/alpha") ? "rope_scaling/alpha"
                                                                 : "rope_parameters/alpha";
    float       alpha;

    if (s->kind == LM_GGUF || c->rope.type != LM_ROPE_DYNAMIC || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_read_f32(s, key, NULL, 1e-3, 1e9, NAN, &alpha, e));
    if (c->head_dim <= 2)
        return lm_wrong(s, key, NULL, e, "heads of %u dimensions cannot be stretched; 4 or more are expected",
                        c->head_dim);
    c->rope.base *= pow((double)alpha, (double)c->head_dim / (c->head_dim - 2));
    if (!(c->rope.base <= 1e30))
        return lm_wrong(s, key, NULL, e, "makes the base of the rotation %g; at most 1e30 is expected",
                        c->rope.base);
    c->rope.type   = LM_ROPE_DEFAULT;
    c->rope.factor = 1;
    return LM_OK;
}

static lm_status hunyuan_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool normed;

    LM_TRY(lm_llama_shape(s, c, e));
    c->bias_mlp = false;
    LM_TRY(lm_read_bool(s, "use_qk_norm", NULL, true, &normed, e));
    if (!normed)
        return lm_no_form(s, "use_qk_norm", "heads are always normalised in this family", e);
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return read_alpha(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.query_layernorm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.key_layernorm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { NULL, NULL },
};

const lm_family lm_family_hunyuan = {
    .name         = "hunyuan_v1_dense",
    .class_prefix = "HunYuanDenseV1",
    .hf_types     = (const char *const[]){ "hunyuan_v1_dense", NULL },
    .gguf_archs   = (const char *const[]){ "hunyuan-dense", NULL },
    .pad_token    = "0",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = hunyuan_configure,
    .build        = hunyuan_build,
    .names        = names,
    .defaults     = (const lm_default[]){ { "rms_norm_eps", 1e-5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "use_qk_norm", "pretraining_tp",
                                           "eod_token_id", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
