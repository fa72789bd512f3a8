/* jamba.c - Jamba (arXiv 2403.19887): layers with Mamba's mixer, whose time step, B and C are normalised, and
 * layers with attention without positions; each followed by a gated MLP, or by experts. */
#include <stdio.h>

#include "arch/families.h"

typedef struct jamba {
    uint32_t attention_period, attention_offset, expert_period, expert_offset;
    bool     mixture[LM_MAX_LAYERS];
} jamba;
LM_OWN_FITS(jamba);

static const lm_own_number own_numbers[] = {
    { "attn_layer_period", NULL, LM_OWN_U32, offsetof(jamba, attention_period), 1, LM_MAX_LAYERS + 1, 8, true },
    { "attn_layer_offset", NULL, LM_OWN_U32, offsetof(jamba, attention_offset), 0, LM_MAX_LAYERS, 4, true },
    { "expert_layer_period", NULL, LM_OWN_U32, offsetof(jamba, expert_period), 1, LM_MAX_LAYERS + 1, 2, true },
    { "expert_layer_offset", NULL, LM_OWN_U32, offsetof(jamba, expert_offset), 0, LM_MAX_LAYERS, 1, true },
    { 0 },
};

/* ---- the model ---- */

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_value y = lm_llama_scores(b, c, layer, lm_llama_heads(b, c, x));
    lm_pop(b);
    return y;
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const parts[3] = { "gate_proj", "up_proj", "down_proj" };

    lm_push(b, "feed_forward", "%sSparseMoeBlock");
    lm_value route = lm_route(b, lm_linear(b, "router", x, c->route.n_experts, false), &c->route, NULL);
    lm_value y     = lm_experts(b, "experts", x, route, c->route.n_experts, c->route.top_k, c->expert_width,
                                c->act, parts);
    lm_pop(b);
    return y;
}

static lm_value layer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    const jamba *own = lm_own(c);

    lm_class_is(b, c->stateful[i] ? "%sMambaDecoderLayer" : "%sAttentionDecoderLayer");
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    x = lm_add(b, x, c->stateful[i] ? lm_mamba(b, c, "mamba", h) : attention(b, c, i, h));
    h = lm_llama_norm(b, c, "pre_ff_layernorm", x);
    return lm_add(b, x, own->mixture[i] ? mixture(b, c, h) : lm_feed_forward(b, c, h));
}

static lm_value final_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    (void)name;
    return lm_llama_norm(b, c, "final_layernorm", x);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = layer, .norm = final_norm, .rotary_class = "" });
}

/* ---- metadata ---- */

static const lm_mamba_keys mamba_keys = {
    .rank      = "mamba_dt_rank",
    .state     = "mamba_d_state",
    .taps      = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .in_bias   = "mamba_proj_bias",
    .out_bias  = "mamba_proj_bias",
    .expand    = "mamba_expand",
};

/* Set the period and offset of the layers for which `is` holds: what config.json has in place of a list. */
static void find_period(const bool *is, bool value, uint32_t n, uint32_t *period, uint32_t *offset)
{
    uint32_t at[2] = { n }, found = 0;

    for (uint32_t i = 0; i < n && found < 2; i++)
        if (is[i] == value)
            at[found++] = i;
    *offset = at[0];
    *period = found < 2 || at[0] >= at[1] - at[0] ? n + 1 : at[1] - at[0];
}

/* Read which layers have attention, and which have experts. GGUF files list the former, and have a router in
 * the latter. */
static lm_status read_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    jamba *own = lm_family_config_mut(c);
    char   name[64];

    LM_TRY(lm_read_own(s, own_numbers, c, e));
    if (s->kind != LM_GGUF && own->attention_offset >= own->attention_period)
        return lm_wrong(s, "attn_layer_offset", NULL, e, "%u is not less than attn_layer_period, %u",
                        own->attention_offset, own->attention_period);
    if (s->kind != LM_GGUF && own->expert_offset >= own->expert_period)
        return lm_wrong(s, "expert_layer_offset", NULL, e, "%u is not less than expert_layer_period, %u",
                        own->expert_offset, own->expert_period);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (s->kind != LM_GGUF)
            c->stateful[i] = i % own->attention_period != own->attention_offset;
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
        own->mixture[i] = c->route.n_experts && (s->kind == LM_GGUF && s->tensors
                                                     ? lm_has_tensor(s, name)
                                                     : i % own->expert_period == own->expert_offset);
    }
    if (s->kind == LM_GGUF) {
        find_period(c->stateful, false, c->n_layers, &own->attention_period, &own->attention_offset);
        if (c->route.n_experts)
            find_period(own->mixture, true, c->n_layers, &own->expert_period, &own->expert_offset);
    }
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mixed_sizes(s, "mamba", "rms_norm_eps", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    c->attention = lm_plain_attention(c);
    c->route     = (lm_route_spec){ .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_experts", "expert_count", 1, LM_MAX_EXPERTS, s->kind == LM_GGUF ? 1 : 16,
                       &c->route.n_experts, e));
    if (c->route.n_experts == 1)
        c->route.n_experts = 0;          /* a plain MLP */
    if (c->route.n_experts)
        LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, 2,
                           &c->route.top_k, e));
    c->expert_width = c->route.n_experts ? c->intermediate : 0;
    LM_TRY(read_layers(s, c, e));
    LM_TRY(lm_read_mamba(s, &mamba_keys, c, e));
    c->mamba.inner_norm = LM_INNER_WEIGHTED;
    c->mamba.inner_eps  = c->norm_eps;
    return LM_OK;
}

static const lm_name names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },
    { "model.layers.*.self_attn.k_proj", "blk.*.attn_k" },
    { "model.layers.*.self_attn.v_proj", "blk.*.attn_v" },
    { "model.layers.*.self_attn.o_proj", "blk.*.attn_output" },
    LM_MAMBA_NAMES("model.layers.*.mamba"),
    { "model.layers.*.mamba.dt_layernorm", "blk.*.ssm_dt_norm" },
    { "model.layers.*.mamba.b_layernorm", "blk.*.ssm_b_norm" },
    { "model.layers.*.mamba.c_layernorm", "blk.*.ssm_c_norm" },
    { "model.layers.*.pre_ff_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.feed_forward.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.feed_forward.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.feed_forward.down_proj", "blk.*.ffn_down" },
    { "model.layers.*.feed_forward.router", "blk.*.ffn_gate_inp" },
    { "model.layers.*.feed_forward.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.feed_forward.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.feed_forward.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.final_layernorm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

static const char *const keys[] = {
    "hidden_act", "attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset",
    "num_experts", "num_experts_per_tok", "mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_dt_rank",
    "mamba_conv_bias", "mamba_proj_bias", "use_mamba_kernels", "use_mambapy", "use_associative_scan",
    "mamba_inner_layernorms", "num_logits_to_keep", "router_aux_loss_coef", "output_router_logits",
    "calc_logits_for_entire_prompt", NULL,
};

static const lm_order orders[] = {
    { "MambaMixer", "conv1d act in_proj x_proj dt_proj out_proj dt_layernorm b_layernorm c_layernorm *" },
    { "Attention", "q_proj k_proj v_proj o_proj *" },
    { "SparseMoeBlock", "router experts *" },
    { "DecoderLayer", "mamba self_attn feed_forward input_layernorm pre_ff_layernorm *" },
    { "Model", "embed_tokens layers final_layernorm *" },
    { NULL, NULL },
};

static const lm_default defaults[] = {
    { "num_key_value_heads", 8 }, { "max_position_embeddings", 262144 }, { "mamba_d_state", 16 }, { NULL, 0 },
};

const lm_family lm_family_jamba = {
    .name         = "jamba",
    .class_prefix = "Jamba",
    .hf_types     = (const char *const[]){ "jamba", NULL },
    .gguf_archs   = (const char *const[]){ "jamba", NULL },
    .pad_token    = "0",
    .state_word   = "mamba",
    .mamba        = &mamba_keys,
    .orders       = orders,
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
    .defaults     = defaults,
    .keys         = keys,
};
