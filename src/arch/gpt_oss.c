/* gpt_oss.c - gpt-oss (arXiv 2508.10925): a learned sink per head, a window in every other layer, YaRN
 * without truncated bounds, experts in four bits with clamped gates, biases everywhere. */
#include "arch/families.h"

typedef struct gpt_oss { float limit; } gpt_oss;     /* of the experts' gates: lm_expert_spec */
LM_OWN_FITS(gpt_oss);

static lm_value moe(lm_builder *b, const lm_config *c, lm_value x)
{
    const gpt_oss       *own     = lm_own(c);
    const lm_expert_spec experts = {
        .n_experts = c->route.n_experts,
        .top_k = c->route.top_k,
        .width = c->expert_width,
        .act = c->act,
        .limit = own->limit,
        .plus = 1,
        .bias = true,
        .names = { "gate_proj", "up_proj", "down_proj" },
        .four_bits = true,
        .in_turns = true,
        .transposed = true,
        .joined = "experts.gate_up_proj",
        .alone = "experts.down_proj",
    };

    lm_push(b, "mlp", "%sMLP");
    lm_value scores = lm_linear(b, "router", x, c->route.n_experts, true);
    lm_value y      = lm_experts_of(b, "experts", x, lm_route(b, scores, &c->route, NULL), &experts);
    lm_pop(b);
    return y;
}

static lm_value gpt_oss_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h          = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, moe(b, c, h));
}

static lm_value gpt_oss_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = gpt_oss_layer });
}

/* Four-bit weights are recognised by their tensors; other quantisation methods are not supported. */
static lm_status check_quantisation(const lm_source *s, lm_error *e)
{
    lm_view method;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "quantization_config/quant_method"))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, "quantization_config/quant_method", &method, e));
    return lm_view_is(method, "mxfp4")
               ? LM_OK
               : lm_no_form(s, "quantization_config/quant_method", "only mxfp4 has a form here", e);
}

/* Use the YaRN parameters of the published models if a folder has none. */
static lm_status implied_rope(const lm_source *s, lm_config *c, lm_error *e)
{
    if (s->kind == LM_GGUF || lm_rope_is_given(s))
        return LM_OK;
    c->rope.type      = LM_ROPE_YARN;
    c->rope.factor    = 32;
    c->rope.beta_fast = 32;
    c->rope.beta_slow = 1;
    c->rope.truncate  = false;
    return lm_read_u32(s, "original_max_position_embeddings", NULL, 1, UINT32_MAX, 4096,
                       &c->rope.original_context, e);
}

static const lm_own_number gpt_oss_own[] = {
    { "swiglu_limit", NULL, LM_OWN_F32, offsetof(gpt_oss, limit), 1e-6, 1e9, 7, false },
    { 0 },
};

static lm_status gpt_oss_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    float alpha;

    LM_TRY(check_quantisation(s, e));
    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(implied_rope(s, c, e));
    LM_TRY(lm_read_f32(s, "swiglu_alpha", NULL, 0, 1e6, 1.702, &alpha, e));
    LM_TRY(lm_read_own(s, gpt_oss_own, c, e));
    if (alpha != 1.702f)
        return lm_no_form(s, "swiglu_alpha",
                          "gates by another sigmoid than that of 1.702 x have no form here", e);
    c->act             = LM_ACT_GELU_QUICK;
    c->bias_o          = c->bias_qkv;
    c->attention.sinks = true;
    c->rope.pairing    = LM_ROPE_HALF;
    c->rope.permuted   = c->rope.gguf_permutes = false;
    if (s->kind == LM_GGUF)
        c->rope.truncate = false;
    c->route = (lm_route_spec){ .renormalise = true, .scale = 1 };
    LM_TRY(
        lm_read_u32(s, "num_local_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &c->route.n_experts, e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, 4,
                       &c->route.top_k, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_feed_forward_length", 1, 1u << 20, c->intermediate, &c->expert_width,
                       e));
    LM_TRY(lm_read_window(s, 128, c, e));
    return lm_read_window_pattern(s, NULL, 2, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.sinks", "blk.*.attn_sinks" },
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" },
    { "model.layers.*.mlp.router", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.mlp.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps" },
    { NULL, NULL },
};

const lm_family lm_family_gpt_oss = {
    .name         = "gpt_oss",
    .class_prefix = "GptOss",
    .hf_types     = (const char *const[]){ "gpt_oss", NULL },
    .gguf_archs   = (const char *const[]){ "gpt-oss", NULL },
    .configure    = gpt_oss_configure,
    .build        = gpt_oss_build,
    .own          = gpt_oss_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 64 },
                                          { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 150000 }, { "attention_bias", true },
                                          { "num_local_experts", 128 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "sliding_window", "layer_types", "num_local_experts",
                                           "num_experts_per_tok", "experts_per_token", "router_aux_loss_coef", "swiglu_limit",
                                           "swiglu_alpha", "initial_context_length", "quantization_config/quant_method",
                                           "quantization_config/modules_to_not_convert",
                                           "quantization_config/dequantize", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
