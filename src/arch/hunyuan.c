/* hunyuan.c - Hunyuan dense (Tencent, 2025): Llama's decoder with each head of q and k normalised after the
 * rotation, whose base may be stretched once and for all by a factor, alpha; Hunyuan-A13B: the same with a
 * mixture and a shared MLP of the same width in every layer; Hy3 (2026): Qwen3's attention, and mixtures
 * whose choice is corrected. */
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

/* ---- Hunyuan-A13B ---- */

static const lm_mixture_keys moe_keys = { .gguf_shared = LM_SHARED_BOTH };

static lm_value hunyuan_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module       = "mlp",
                                            .class_name   = "%sMoe",
                                            .router       = "gate",
                                            .router_class = "%sGate",
                                            .logits       = "wg",
                                            .shared       = "shared_mlp",
                                            .parts        = { "gate_proj", "up_proj", "down_proj" } };

    x = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, lm_shared_mixture(b, c, &names, lm_llama_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value hunyuan_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = hunyuan_moe_layer });
}

/* Experts are as wide as the MLP, whatever the number of those that are shared: transformers has one. */
static lm_status hunyuan_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t shared;

    LM_TRY(hunyuan_configure(s, c, e));
    c->route = (lm_route_spec){ .renormalise = true, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &c->route.n_experts, e));
    LM_TRY(lm_read_listed(s, "moe_topk", "expert_used_count", c->route.n_experts, -1, c, &c->route.top_k, e));
    LM_TRY(lm_read_listed(s, "moe_intermediate_size", "expert_feed_forward_length", 1u << 20, c->intermediate,
                          c, &c->expert_width, e));
    if (c->expert_width != c->intermediate)
        return lm_wrong(s, "moe_intermediate_size", "expert_feed_forward_length", e,
                        "%u; %u is expected, the width of the MLP", c->expert_width, c->intermediate);
    LM_TRY(lm_read_listed(s, "num_shared_expert", "expert_shared_count", 1, 1, c, &shared, e));
    return lm_read_u32(s, NULL, "expert_shared_feed_forward_length", 1, 1u << 20, c->intermediate,
                       &c->shared_width, e);
}

/* ---- Hy3 ---- */

typedef struct hy_v3 { bool dense[LM_MAX_LAYERS]; } hy_v3;       /* layers with a plain MLP */
LM_OWN_FITS(hy_v3);

static const lm_mixture_keys hy_keys = { .experts = "num_experts", .top_k = "num_experts_per_tok",
                                         .shared = "num_shared_experts", .scale = "router_scaling_factor",
                                         .normalised = "route_norm", .gguf_shared = LM_SHARED_WIDTH };

static lm_value hy_v3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module       = "mlp",
                                            .class_name   = "%sMoE",
                                            .router       = "router",
                                            .router_class = "%sRouter",
                                            .logits       = "gate",
                                            .correction   = "expert_bias",
                                            .unsuffixed   = true,
                                            .shared       = "shared_mlp",
                                            .parts        = { "gate_proj", "up_proj", "down_proj" } };
    const hy_v3                  *own   = lm_own(c);

    x          = lm_add(b, x, lm_normed_attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h));
}

static lm_value hy_v3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = hy_v3_layer });
}

/* In GGUF files, layers have the MLP whose tensors they have. */
static lm_status read_dense(const lm_source *s, lm_config *c, lm_error *e)
{
    hy_v3   *own = lm_family_config_mut(c);
    uint32_t first;

    LM_TRY(lm_read_u32(s, "first_k_dense_replace", NULL, 1, 1, 1, &first, e));
    LM_TRY(lm_read_mlp_kinds(s, first, own->dense, c, e));
    lm_find_mlp_kinds(s, own->dense, c);
    return LM_OK;
}

static lm_status hy_v3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_mixture_keys keys = hy_keys;

    LM_TRY(lm_llama_configure(s, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_expect_bool(s, "qk_norm", true, e));
    LM_TRY(lm_expect_bool(s, "moe_router_enable_expert_bias", true, e));
    LM_TRY(lm_expect_bool(s, "moe_router_use_sigmoid", true, e));
    LM_TRY(lm_expect_bool(s, "route_norm", true, e));
    keys.normalises = s->kind != LM_GGUF;
    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    return read_dense(s, c, e);
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

static const lm_name moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.query_layernorm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.key_layernorm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.gate.wg", "blk.*.ffn_gate_inp" },
    LM_SHARED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_hunyuan_moe = {
    .name         = "hunyuan_v1_moe",
    .class_prefix = "HunYuanMoEV1",
    .hf_types     = (const char *const[]){ "hunyuan_v1_moe", NULL },
    .gguf_archs   = (const char *const[]){ "hunyuan-moe", NULL },
    .pad_token    = "0",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = hunyuan_moe_configure,
    .build        = hunyuan_moe_build,
    .mixture      = &moe_keys,
    .names        = moe_names,
    .defaults     = (const lm_default[]){ { "rms_norm_eps", 1e-5 }, { "num_experts", 1 }, { "moe_topk", 1 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "use_qk_norm", "num_experts", "moe_topk",
                                           "moe_intermediate_size", "num_shared_expert", "use_mixed_mlp_moe",
                                           "pretraining_tp", "eod_token_id", "attention_head_dim", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

static const lm_name hy_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.router.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.expert_bias", "blk.*.exp_probs_b" },
    LM_SHARED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_hy_v3 = {
    .name         = "hy_v3",
    .class_prefix = "HYV3",
    .hf_types     = (const char *const[]){ "hy_v3", NULL },
    .gguf_archs   = (const char *const[]){ "hy_v3", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = hy_v3_configure,
    .build        = hy_v3_build,
    .mixture      = &hy_keys,
    .names        = hy_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 }, { "rms_norm_eps", 1e-5 },
                                          { "rope_theta", 11158840 }, { "num_experts", 192 },
                                          { "num_experts_per_tok", 8 }, { "num_shared_experts", 1 },
                                          { "moe_intermediate_size", 1536 },
                                          { "router_scaling_factor", 2.826 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "num_experts",
                                           "num_experts_per_tok", "num_shared_experts", "moe_intermediate_size",
                                           "router_scaling_factor", "route_norm", "mlp_layer_types",
                                           "first_k_dense_replace", "qk_norm", "moe_router_enable_expert_bias",
                                           "moe_router_use_sigmoid", "enable_moe_fp32_combine",
                                           "enable_attention_fp32_softmax", "enable_lm_head_fp32",
                                           "num_nextn_predict_layers", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .layers       = "model.layers.",
};
