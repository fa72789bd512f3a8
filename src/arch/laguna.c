/* laguna.c - Laguna (poolside, 2026): a gate by softplus behind attention, one for each head or for each
 * lane, heads normalised before the rotation, and mixtures whose choice is corrected. Layers with a window
 * may have more heads, and rotate otherwise than the others. */
#include "arch/families.h"

typedef struct laguna {
    uint32_t dense_layers;               /* of `dense`, the first ones */
    bool     gates_lanes;                /* else heads */
    float    cap;                        /* of the logits of the router; 0: none */
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} laguna;
LM_OWN_FITS(laguna);

static const lm_own_number own_numbers[] = {
    { NULL, "leading_dense_block_count", LM_OWN_U32, offsetof(laguna, dense_layers), 0, LM_MAX_LAYERS, 1, true },
    { "moe_router_logit_softcapping", NULL, LM_OWN_F32, offsetof(laguna, cap), 0, 1e6, 0, false },
    { 0 },
};

static const lm_mixture_keys keys = { .experts = "num_experts", .top_k = "num_experts_per_tok",
                                      .scale = "moe_routed_scaling_factor", .normalised = "norm_topk_prob",
                                      .gguf_shared = LM_SHARED_WIDTH };

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const laguna       *own  = lm_own(c);
    lm_attention_spec   a    = lm_layer_attention(c, layer);
    const lm_rope_spec *rope = c->full[layer] ? &c->rope : &c->local.rope;

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_layer_heads(b, c, &a, x);
    h.q = lm_rope(b, lm_rms_norm_heads(b, "q_norm", h.q, a.n_heads, c->norm_eps), a.n_heads, rope);
    h.k = lm_rope(b, lm_rms_norm_heads(b, "k_norm", h.k, a.n_kv_heads, c->norm_eps), a.n_kv_heads, rope);
    lm_value gate = lm_linear(b, "g_proj", x, a.n_heads * (own->gates_lanes ? a.v_dim : 1), false);
    lm_value y    = lm_gate(b, "gated", gate, lm_attention(b, h.q, h.k, h.v, &a), LM_ACT_SOFTPLUS);
    y             = lm_linear(b, "o_proj", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

static lm_value laguna_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const laguna          *own   = lm_own(c);
    const lm_mixture_names names = { .module     = "mlp",
                                     .class_name = "%sSparseMoeBlock",
                                     .correction = "experts.e_score_correction_bias",
                                     .shared     = "shared_expert",
                                     .cap        = own->cap,
                                     .parts      = { "gate_proj", "up_proj", "down_proj" } };

    x          = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h));
}

static lm_value laguna_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = laguna_layer });
}

/* ---- metadata ---- */

/* GGUF files of llama.cpp list no layers: the first of four has no window. */
static lm_status read_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    bool file = s->kind == LM_GGUF, some = false;

    if (file || lm_meta_has(s->meta, "layer_types"))
        LM_TRY(lm_read_window(s, file ? 0 : 512, c, e));
    if (c->attention.window)
        LM_TRY(lm_read_pattern_from_first(s, 4, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->full[i] |= !c->attention.window;
        some |= !c->full[i];
    }
    if (!some)
        c->attention.window = 0;
    return LM_OK;
}

/* Without rope_parameters, transformers' class has two rotations of its own. */
static lm_status read_rotations(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes, window = c->attention.window;
    float    base = 10000;

    LM_TRY(lm_read_rotary_lanes_of(s, "partial_rotary_factor",
                                   lm_meta_has(s->meta, "rope_parameters") ? 1 : 0.5, false, c, &lanes, e));
    LM_TRY(lm_read_f32(s, NULL, "rope.freq_base_swa", 1e-3, 1e30, 10000, &base, e));
    LM_TRY(lm_read_two_ropes(s, lanes, 500000, (double)base, c, &c->local.rope, e));
    LM_TRY(lm_read_rotary_lanes_of(s, NULL, 1, true, c, &c->local.rope.dim, e));
    c->rope.pairing     = c->local.rope.pairing = LM_ROPE_HALF;
    c->attention        = lm_plain_attention(c);
    c->attention.window = window;
    if (!window)
        c->local.rope.dim = 0;           /* no layer has it */
    return LM_OK;
}

/* config.json: "per-head", "per-element", or true for the former. GGUF: the width of the matrix says it. */
static lm_status read_gate(const lm_source *s, lm_config *c, lm_error *e)
{
    laguna                 *own  = lm_family_config_mut(c);
    uint32_t                n    = c->full[0] ? c->n_heads : c->local.n_heads;
    const lm_tensor_info   *gate = s->kind == LM_GGUF && s->tensors
                                       ? lm_container_find(s->tensors, "blk.0.attn_gate.weight")
                                       : NULL;
    bool                    heads[LM_MAX_LAYERS];
    lm_meta_value           v;

    own->gates_lanes = gate && gate->elements == (uint64_t)n * c->head_dim * c->hidden;
    if (s->kind == LM_GGUF)
        return LM_OK;
    if (lm_meta_get(s->meta, "gating", &v) && !(v.kind == LM_META_BOOL && v.b)) {
        own->gates_lanes = v.kind == LM_META_STRING && lm_view_is(v.s, "per-element");
        if (!own->gates_lanes && !(v.kind == LM_META_STRING && lm_view_is(v.s, "per-head")))
            return lm_no_form(s, "gating", "is none of true, \"per-head\" and \"per-element\"", e);
    }
    if (!lm_meta_has(s->meta, "gating_types"))
        return LM_OK;
    LM_TRY(lm_read_layer_kinds(s, "gating_types", "per_head", "per_element", heads, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (heads[i] == own->gates_lanes)
            return lm_no_form(s, "gating_types", "contradicts gating", e);
    return LM_OK;
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    laguna         *own     = lm_family_config_mut(c);
    lm_mixture_keys mixture = keys;
    bool            listed  = s->kind != LM_GGUF && !lm_meta_has(s->meta, "mlp_layer_types") &&
                  lm_meta_has(s->meta, "mlp_only_layers");

    mixture.normalises = s->kind != LM_GGUF;
    LM_TRY(lm_expect_bool(s, "moe_apply_router_weight_on_input", false, e));
    if (s->kind != LM_GGUF)
        LM_TRY(lm_expect_bool(s, "norm_topk_prob", true, e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(listed ? lm_read_dense_layers(s, c, own->dense, e)
                  : lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e));
    own->dense_layers = lm_leading(own->dense, c);
    LM_TRY(lm_read_corrected_mixture(s, &mixture, c, e));
    return lm_read_u32(s, "shared_expert_intermediate_size", "expert_shared_feed_forward_length", 1, 1u << 20,
                       s->kind == LM_GGUF ? c->expert_width : 512, &c->shared_width, e);
}

static lm_status laguna_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_kind_keys kinds = { .windows = read_windows, .heads = "num_attention_heads_per_layer" };

    LM_TRY(lm_read_sizes_by_kind(s, &kinds, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    c->bias_mlp = false;
    LM_TRY(read_rotations(s, c, e));
    LM_TRY(read_gate(s, c, e));
    return read_mixture(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.self_attn.g_proj", "blk.*.attn_gate" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.experts.e_score_correction_bias", "blk.*.exp_probs_b" },
    { "model.layers.*.mlp.shared_expert.gate_proj", "blk.*.ffn_gate_shexp" },
    { "model.layers.*.mlp.shared_expert.up_proj", "blk.*.ffn_up_shexp" },
    { "model.layers.*.mlp.shared_expert.down_proj", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

const lm_family lm_family_laguna = {
    .name         = "laguna",
    .class_prefix = "Laguna",
    .hf_types     = (const char *const[]){ "laguna", NULL },
    .gguf_archs   = (const char *const[]){ "laguna", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = laguna_configure,
    .build        = laguna_build,
    .own          = own_numbers,
    .mixture      = &keys,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 }, { "num_experts", 256 },
                                          { "num_experts_per_tok", 8 }, { "moe_intermediate_size", 512 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "gating", "gating_types",
                                           "num_attention_heads_per_layer", "layer_types", "sliding_window",
                                           "mlp_layer_types", "mlp_only_layers", "decoder_sparse_step",
                                           "num_experts", "num_experts_per_tok", "moe_intermediate_size",
                                           "shared_expert_intermediate_size", "moe_routed_scaling_factor",
                                           "moe_apply_router_weight_on_input", "moe_router_logit_softcapping",
                                           "norm_topk_prob", "partial_rotary_factor", "router_aux_loss_coef",
                                           "qkv_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
