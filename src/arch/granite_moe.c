/* granite_moe.c - Granite 3 MoE (IBM, 2024), with or without a shared MLP in addition to the experts:
 * Granite's multipliers; folders store the gate and up matrices of the experts in one tensor. */
#include "arch/families.h"

LM_OWN_FITS(lm_granite_moe);

static lm_value moe(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "block_sparse_moe", "%sMoE");
    lm_push(b, "router", "%sTopKGating");
    lm_value scores = lm_linear(b, "layer", x, c->route.n_experts, false);
    lm_pop(b);
    lm_value y = lm_experts_of(b, "experts", x, lm_route(b, scores, &c->route, NULL),
                               &(lm_expert_spec){ .n_experts = c->route.n_experts,
                                                  .top_k = c->route.top_k,
                                                  .width = c->expert_width,
                                                  .act = c->act,
                                                  .names = { "gate_proj", "up_proj", "down_proj" },
                                                  .joined = "input_linear.weight",
                                                  .alone = "output_linear.weight" });
    lm_pop(b);
    return y;
}

/* GGUF stores gate and up separately. */
lm_value lm_granite_shared_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    const lm_granite_moe *own = lm_own(c);
    uint32_t              w   = c->shared_width;
    lm_value              gate, up;

    lm_push(b, "shared_mlp", "%sMLP");
    if (own->shared_apart) {
        gate = lm_linear(b, "gate_linear", x, w, false);
        up   = lm_linear(b, "up_linear", x, w, false);
    } else {
        lm_value both = lm_linear(b, "input_linear", x, 2 * w, false);
        gate          = lm_columns(b, "gate", both, 1, 0, w);
        up            = lm_columns(b, "up", both, 1, w, w);
    }
    lm_value y = lm_linear(b, "output_linear", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return y;
}

lm_value lm_granite_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    if (!c->route.n_experts)
        return lm_granite_shared_mlp(b, c, x);
    lm_value y = moe(b, c, x);
    return c->shared_width ? lm_add(b, y, lm_granite_shared_mlp(b, c, x)) : y;
}

static lm_value granite_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lm_granite *own = lm_own(c);
    lm_value          h   = lm_llama_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_scale(b, lm_llama_attention(b, c, layer, h), own->residual));
    h          = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_scale(b, lm_granite_mlp(b, c, h), own->residual));
}

static lm_value granite_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_granite_frame(b, c, granite_moe_layer);
}

lm_status lm_granite_experts(const lm_source *s, uint32_t least, lm_config *c, lm_error *e)
{
    lm_granite_moe *own = lm_family_config_mut(c);

    c->route = (lm_route_spec){ .renormalise = true, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_local_experts", "expert_count", least, LM_MAX_EXPERTS,
                       s->kind == LM_GGUF && !least ? 0 : 8, &c->route.n_experts, e));
    if (c->route.n_experts)
        LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, 2,
                           &c->route.top_k, e));
    LM_TRY(lm_read_u32(s, "shared_intermediate_size", "expert_shared_feed_forward_length", 0, 1u << 20, 0,
                       &c->shared_width, e));
    c->expert_width   = c->route.n_experts ? c->intermediate : 0;
    own->shared_apart = s->kind == LM_GGUF;
    return LM_OK;
}

static lm_status granite_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_granite_configure(s, c, e));
    return lm_granite_experts(s, 1, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GRANITE_EXPERT_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_granite_moe = {
    .name         = "granitemoe",
    .class_prefix = "GraniteMoe",
    .hf_types     = (const char *const[]){ "granitemoe", "granitemoeshared", NULL },
    .gguf_archs   = (const char *const[]){ "granitemoe", NULL },
    .configure    = granite_moe_configure,
    .build        = granite_moe_build,
    .own          = lm_granite_own,
    .names        = names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "embedding_multiplier", "residual_multiplier",
                                           "attention_multiplier", "logits_scaling", "num_local_experts", "num_experts_per_tok",
                                           "router_aux_loss_coef", "shared_intermediate_size", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
