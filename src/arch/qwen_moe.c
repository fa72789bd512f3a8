/* qwen_moe.c - Qwen2-MoE (arXiv 2407.10671) and Qwen3-MoE (arXiv 2505.09388): the decoders of Qwen2 and Qwen3
 * with mixtures of experts as MLPs in all or some layers. Qwen2-MoE also has a shared expert with a scalar
 * gate. */
#include "arch/families.h"

typedef struct qwen_moe {
    bool dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} qwen_moe;
LM_OWN_FITS(qwen_moe);

static lm_value experts(lm_builder *b, const lm_config *c, bool joined, lm_value x)
{
    lm_expert_spec spec = {
        .n_experts = c->route.n_experts,
        .top_k     = c->route.top_k,
        .width     = c->expert_width,
        .act       = c->act,
        .names     = { "gate_proj", "up_proj", "down_proj" },
        .joined    = joined ? "experts.gate_up_proj" : NULL,
        .alone     = joined ? "experts.down_proj" : NULL,
    };

    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route, NULL);
    return lm_experts_of(b, "experts", x, route, &spec);
}

static lm_value shared_expert(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "shared_expert", "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->shared_width, false);
    lm_value up   = lm_linear(b, "up_proj", x, c->shared_width, false);
    lm_value y    = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return lm_gate(b, "shared", lm_linear(b, "shared_expert_gate", x, 1, false), y, LM_ACT_SIGMOID);
}

lm_value lm_qwen_moe(lm_builder *b, const lm_config *c, bool joined, lm_value x)
{
    lm_push(b, "mlp", "%sSparseMoeBlock");
    lm_value y = experts(b, c, joined, x);
    if (c->shared_width)
        y = lm_add(b, y, shared_expert(b, c, x));
    lm_pop(b);
    return y;
}

static lm_value layer_with(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x,
                           lm_layer_builder *attention)
{
    const qwen_moe *own = lm_own(c);
    lm_value        h   = lm_llama_norm(b, c, "input_layernorm", x);
    x = lm_add(b, x, attention(b, c, layer, h));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_qwen_moe(b, c, false, h));
}

static lm_value qwen2_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return layer_with(b, c, layer, x, lm_llama_attention);
}

static lm_value qwen3_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return layer_with(b, c, layer, x, lm_normed_attention);
}

static lm_value qwen2_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = qwen2_moe_layer });
}

static lm_value qwen3_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = qwen3_moe_layer });
}

/* Read which layers are dense: mlp_only_layers, and layers whose number + 1 is not a multiple of
 * decoder_sparse_step. */
lm_status lm_read_dense_layers(const lm_source *s, const lm_config *c, bool *dense, lm_error *e)
{
    lm_meta_value list, item;
    uint32_t      step;

    LM_TRY(lm_read_u32(s, "decoder_sparse_step", NULL, 1, LM_MAX_LAYERS, 1, &step, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        dense[i] = (i + 1) % step != 0;
    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "mlp_only_layers"))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, "mlp_only_layers", LM_MAX_LAYERS, &list, e));
    for (uint64_t i = 0; i < list.a.n; i++)
        if (lm_meta_at(&list, i, &item) && item.kind == LM_META_UINT && item.u < c->n_layers)
            dense[item.u] = true;
        else
            return lm_no_form(s, "mlp_only_layers", "names a layer that does not exist", e);
    return LM_OK;
}

lm_status lm_read_routing(const lm_source *s, bool normalised, lm_config *c, lm_error *e)
{
    c->route = (lm_route_spec){ .scale = 1 };
    /* transformers 5 renames num_experts when it saves Qwen3-MoE */
    const char *experts_key = lm_meta_has(s->meta, "num_local_experts") ? "num_local_experts" : "num_experts";
    LM_TRY(lm_read_u32(s, experts_key, "expert_count", 1, LM_MAX_EXPERTS, -1, &c->route.n_experts, e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, -1,
                       &c->route.top_k, e));
    return lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", s->kind == LM_GGUF && normalised,
                        &c->route.renormalise, e);
}

lm_status lm_qwen_experts(const lm_source *s, bool normalised, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_routing(s, normalised, c, e));
    return lm_read_u32(s, "moe_intermediate_size", "expert_feed_forward_length", 1, 1u << 20, -1,
                       &c->expert_width, e);
}

static lm_status configure(const lm_source *s, bool normalised, lm_config *c, lm_error *e)
{
    qwen_moe *own = lm_family_config_mut(c);

    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_qwen_experts(s, normalised, c, e));
    return lm_read_dense_layers(s, c, own->dense, e);
}

/* Without layer_types, even layers below max_window_layers have the window. */
static lm_status qwen2_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t last;
    bool     on;

    LM_TRY(configure(s, false, c, e));
    LM_TRY(lm_read_u32(s, "shared_expert_intermediate_size", "expert_shared_feed_forward_length", 1, 1u << 20,
                       5632, &c->shared_width, e));
    LM_TRY(lm_read_bool(s, "qkv_bias", NULL, true, &c->bias_qkv, e));
    c->bias_o = false;
    LM_TRY(lm_read_bool(s, "use_sliding_window", NULL, false, &on, e));
    if (!on)
        return LM_OK;
    LM_TRY(lm_read_window(s, 4096, c, e));
    LM_TRY(lm_read_u32(s, "max_window_layers", NULL, 0, LM_MAX_LAYERS, 28, &last, e));
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "layer_types"); i++)
        c->full[i] = i % 2 == 1 || i >= last;
    return LM_OK;
}

/* A window applies to all layers here, regardless of max_window_layers. */
static lm_status qwen3_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool on;

    LM_TRY(configure(s, true, c, e));
    LM_TRY(lm_read_bool(s, "use_sliding_window", NULL, false, &on, e));
    return on ? lm_read_u32(s, "sliding_window", NULL, 1, UINT32_MAX, 4096, &c->attention.window, e) : LM_OK;
}

const lm_name lm_qwen_moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.mlp.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.mlp.shared_expert_gate", "blk.*.ffn_gate_inp_shexp" },
    { "model.layers.*.mlp.shared_expert.gate_proj", "blk.*.ffn_gate_shexp" },
    { "model.layers.*.mlp.shared_expert.up_proj", "blk.*.ffn_up_shexp" },
    { "model.layers.*.mlp.shared_expert.down_proj", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

static const char *const keys[] = { "hidden_act",
                                    "attention_bias",
                                    "qkv_bias",
                                    "use_sliding_window",
                                    "sliding_window",
                                    "max_window_layers",
                                    "layer_types",
                                    "num_experts",
                                    "num_local_experts",
                                    "num_experts_per_tok",
                                    "moe_intermediate_size",
                                    "shared_expert_intermediate_size",
                                    "norm_topk_prob",
                                    "decoder_sparse_step",
                                    "mlp_only_layers",
                                    "router_aux_loss_coef",
                                    NULL };

const lm_family lm_family_qwen2_moe = {
    .name         = "qwen2_moe",
    .class_prefix = "Qwen2Moe",
    .hf_types     = (const char *const[]){ "qwen2_moe", NULL },
    .gguf_archs   = (const char *const[]){ "qwen2moe", NULL },
    .configure    = qwen2_moe_configure,
    .build        = qwen2_moe_build,
    .names        = lm_qwen_moe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 16 }, { "max_position_embeddings", 32768 },
                                          { "intermediate_size", 5632 }, { "num_experts", 60 }, { "num_experts_per_tok", 4 },
                                          { "moe_intermediate_size", 1408 }, { "shared_expert_intermediate_size", 5632 },
                                          { "qkv_bias", true }, { NULL, 0 } },
    .keys         = keys,
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_qwen3_moe = {
    .name         = "qwen3_moe",
    .class_prefix = "Qwen3Moe",
    .hf_types     = (const char *const[]){ "qwen3_moe", NULL },
    .gguf_archs   = (const char *const[]){ "qwen3moe", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = qwen3_moe_configure,
    .build        = qwen3_moe_build,
    .names        = lm_qwen_moe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "max_position_embeddings", 32768 },
                                          { "intermediate_size", 6144 }, { "num_experts", 128 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 768 }, { NULL, 0 } },
    .keys         = keys,
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
