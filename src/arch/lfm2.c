/* lfm2.c - LFM2 (arXiv 2511.23404): layers with a gated short convolution, and layers with attention whose
 * heads of q and k are normalised before the rotation; each followed by a gated MLP, or, after the first
 * layers of LFM2-MoE, by a mixture of gated experts. LFM3 (Liquid AI, 2026): longer convolutions, layers with
 * a window that have a rotation of their own, a gate for each head, and norms behind both parts too. */
#include "arch/families.h"

#include <math.h>

typedef struct lfm2 {
    uint32_t taps, dense_layers;
    bool     conv_bias, expert_bias;
    bool     gated, sandwiched;          /* heads have gates; norms behind both parts (LFM3) */
    lm_rope_spec local;                  /* the rotation of layers with a window (LFM3) */
} lfm2;
LM_OWN_FITS(lfm2);

#define CONV_NUMBERS                                                                                 \
    { "conv_L_cache", "shortconv.l_cache", LM_OWN_U32, offsetof(lfm2, taps), 2, 64, 3, true },       \
    { "conv_bias", NULL, LM_OWN_BOOL, offsetof(lfm2, conv_bias), 0, 1, 0, false }

static const lm_own_number lfm2_own[] = { CONV_NUMBERS, { 0 } };

static const lm_own_number lfm2_moe_own[] = {
    CONV_NUMBERS,
    { "num_dense_layers", "leading_dense_block_count", LM_OWN_U32, offsetof(lfm2, dense_layers), 0, LM_MAX_LAYERS, 2, true },
    { "use_expert_bias", NULL, LM_OWN_BOOL, offsetof(lfm2, expert_bias), 0, 1, 1, false },
    { 0 },
};

static const lm_own_number lfm3_own[] = {
    { "conv_L_cache", NULL, LM_OWN_U32, offsetof(lfm2, taps), 2, 64, 7, true },
    { "conv_bias", NULL, LM_OWN_BOOL, offsetof(lfm2, conv_bias), 0, 1, 0, false },
    { "use_attention_gate", NULL, LM_OWN_BOOL, offsetof(lfm2, gated), 0, 1, 1, false },
    { "use_sandwich_norm", NULL, LM_OWN_BOOL, offsetof(lfm2, sandwiched), 0, 1, 1, false },
    { 0 },
};

/* out_proj(C * conv(B * x)), with B, C and x from one projection. */
static lm_value short_conv(lm_builder *b, const lm_config *c, lm_value x)
{
    const lfm2 *own = lm_own(c);

    lm_push(b, "conv", "%sShortConv");
    lm_value all  = lm_linear(b, "in_proj", x, 3 * c->hidden, own->conv_bias);
    lm_value in   = lm_columns(b, "B", all, 1, 0, c->hidden);
    lm_value out  = lm_columns(b, "C", all, 1, c->hidden, c->hidden);
    lm_value rows = lm_mul(b, "Bx", in, lm_columns(b, "x", all, 1, 2 * c->hidden, c->hidden));
    rows          = lm_causal_conv(b, "conv", rows, own->taps, own->conv_bias);
    lm_value y    = lm_linear(b, "out_proj", lm_mul(b, "y", out, rows), c->hidden, own->conv_bias);
    lm_pop(b);
    return y;
}

static lm_value lfm2_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_layernorm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_layernorm", h.k, c->n_kv_heads, c->norm_eps);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_linear(b, "out_proj", lm_attention(b, h.q, h.k, h.v, &scores), c->hidden, false);
    lm_pop(b);
    return o;
}

static lm_value lfm2_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "feed_forward", "%sMLP");
    lm_value gate = lm_linear(b, "w1", x, c->intermediate, false);
    lm_value up   = lm_linear(b, "w3", x, c->intermediate, false);
    lm_value y    = lm_linear(b, "w2", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return y;
}

static lm_value lfm2_mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const names[3] = { "w1", "w3", "w2" };
    const lfm2              *own      = lm_own(c);

    lm_push(b, "feed_forward", "%sSparseMoeBlock");
    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route,
                              own->expert_bias ? "expert_bias" : NULL);
    lm_value y = lm_experts(b, "experts", x, route, c->route.n_experts, c->route.top_k, c->expert_width,
                            c->act, names);
    lm_pop(b);
    return y;
}

static lm_value lfm2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lfm2 *own = lm_own(c);
    lm_value    h   = lm_llama_norm(b, c, "operator_norm", x);

    x = lm_add(b, x, c->stateful[layer] ? short_conv(b, c, h) : lfm2_attention(b, c, layer, h));
    h = lm_llama_norm(b, c, "ffn_norm", x);
    bool dense = c->route.n_experts == 0 || layer < own->dense_layers;
    return lm_add(b, x, dense ? lfm2_mlp(b, c, h) : lfm2_mixture(b, c, h));
}

static lm_value lfm3_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lfm2       *own    = lm_own(c);
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, c->n_kv_heads, c->norm_eps);
    lm_rotate_heads(b, c, c->full[layer] ? &c->rope : &own->local, &h);
    lm_value y = lm_attention(b, h.q, h.k, h.v, &scores);
    if (own->gated)
        y = lm_gate(b, "gated", lm_linear(b, "gate_proj", x, c->n_heads, false), y, LM_ACT_SIGMOID);
    y = lm_linear(b, "o_proj", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

static lm_value lfm3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lfm2 *own = lm_own(c);
    lm_value    h   = lm_llama_norm(b, c, "operator_norm", x);

    h = c->stateful[layer] ? short_conv(b, c, h) : lfm3_attention(b, c, layer, h);
    x = lm_add(b, x, own->sandwiched ? lm_llama_norm(b, c, "post_operator_norm", h) : h);
    h = lfm2_mlp(b, c, lm_llama_norm(b, c, "ffn_norm", x));
    return lm_add(b, x, own->sandwiched ? lm_llama_norm(b, c, "post_ffn_norm", h) : h);
}

static lm_value final_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    (void)name;
    return lm_llama_norm(b, c, "embedding_norm", x);
}

static lm_value lfm2_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = lfm2_layer, .norm = final_norm });
}

static lm_value lfm3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = lfm3_layer, .norm = final_norm });
}

/* Compute the width of the MLP, which config.json states before an adjustment; GGUF, after it. */
static lm_status read_width(const lm_source *s, lm_config *c, lm_error *e)
{
    bool     adjusts;
    uint32_t multiple;
    float    factor;

    if (s->kind == LM_GGUF)
        return LM_OK;
    LM_TRY(lm_read_u32(s, "block_ff_dim", NULL, 1, 1 << 20, c->intermediate, &c->intermediate, e));
    LM_TRY(lm_read_bool(s, "block_auto_adjust_ff_dim", NULL, true, &adjusts, e));
    LM_TRY(lm_read_u32(s, "block_multiple_of", NULL, 1, 1 << 20, 256, &multiple, e));
    LM_TRY(lm_read_f32(s, "block_ffn_dim_multiplier", NULL, 1e-3, 16, 1, &factor, e));
    if (!adjusts)
        return LM_OK;
    double width    = floor((double)factor * (2 * c->intermediate / 3));
    c->intermediate = (uint32_t)((width + multiple - 1) / multiple) * multiple;
    return LM_OK;
}

static lm_status configure(const lm_source *s, const lm_own_number *own, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mixed_sizes(s, "conv", "norm_eps", c, e));
    LM_TRY(lm_read_attention_layers(s, "full_attn_idxs", c, e));
    LM_TRY(lm_read_own(s, own, c, e));
    c->act       = LM_ACT_SILU;
    c->act_class = NULL;
    if (s->kind != LM_GGUF)
        LM_TRY(lm_read_bool(s, "tie_embedding", NULL, c->tied, &c->tied, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 1e6, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

static lm_status lfm2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(configure(s, lfm2_own, c, e));
    return read_width(s, c, e);
}

/* llama.cpp reads neither norm_topk_prob nor routed_scaling_factor from its files. */
static lm_status lfm2_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_route_spec *r = &c->route;
    uint32_t       scoring;

    LM_TRY(configure(s, lfm2_moe_own, c, e));
    *r = (lm_route_spec){ .sigmoid = true, .renormalise = true, .scale = 1, .sum_eps = 1e-6f };
    LM_TRY(lm_read_u32(s, "num_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &r->n_experts, e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, r->n_experts, -1, &r->top_k, e));
    LM_TRY(lm_read_u32(s, "moe_intermediate_size", "expert_feed_forward_length", 1, 1u << 20, -1,
                       &c->expert_width, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 2, 2, 2, &scoring, e));
    if (s->kind == LM_GGUF)
        return LM_OK;
    LM_TRY(lm_read_bool(s, "norm_topk_prob", NULL, true, &r->renormalise, e));
    return lm_read_f32(s, "routed_scaling_factor", NULL, 1e-6, 1e6, 1, &r->scale, e);
}

/* Read which layers have a convolution, a window, or neither. */
static lm_status read_lfm3_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const words[3] = { "conv", "sliding_attention", "full_attention" };
    uint8_t                  which[LM_MAX_LAYERS];

    for (uint32_t i = 0; i < c->n_layers; i++)
        which[i] = i % 4 == 2 ? 2 : i % 4 == 0 && i > 0;
    if (lm_meta_has(s->meta, "layer_types"))
        LM_TRY(lm_read_layer_words(s, "layer_types", words, which, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->stateful[i] = which[i] == 0;
        c->full[i]     = which[i] != 1;
    }
    return LM_OK;
}

/* Without rope_parameters, transformers' class has two rotations of its own, whatever rope_theta is. */
static lm_status read_lfm3_rotations(const lm_source *s, lm_config *c, lm_error *e)
{
    lfm2  *own   = lm_family_config_mut(c);
    bool   given = lm_meta_has(s->meta, "rope_parameters");
    double base  = given ? 1e6 : 1e4;

    if (lm_meta_has(s->meta, "rope_scaling"))
        return lm_no_form(s, "rope_scaling", "one rotation for all layers is not supported in this family; "
                                             "rope_parameters is expected", e);
    if (given && lm_meta_has(s->meta, "rope_theta"))
        LM_TRY(lm_meta_f64(s->meta, "rope_theta", 1e-3, 1e30, &base, e));
    LM_TRY(lm_read_two_ropes(s, c->head_dim, 1e6, base, c, &own->local, e));
    c->rope.pairing = own->local.pairing = LM_ROPE_HALF;
    if (given)
        return LM_OK;
    c->rope.base = s->rope_freq_base > 0 ? s->rope_freq_base : 1e6;
    if (!s->rope_scaling && c->rope.type == LM_ROPE_DEFAULT) {
        c->rope.type  = LM_ROPE_PROPORTIONAL;
        c->rope.share = 0.5;
    }
    return LM_OK;
}

static lm_status lfm3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mixed_sizes(s, NULL, "norm_eps", c, e));
    LM_TRY(lm_read_own(s, lfm3_own, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o    = c->bias_qkv;
    c->act       = LM_ACT_SILU;
    c->act_class = NULL;
    LM_TRY(read_lfm3_rotations(s, c, e));
    c->attention = lm_plain_attention(c);
    LM_TRY(lm_read_u32(s, "sliding_window", NULL, 1, UINT32_MAX, 256, &c->attention.window, e));
    return read_lfm3_layers(s, c, e);
}

#define NAMES                                                        \
    { "model.embed_tokens", "token_embd" },                          \
    { "model.layers.*.operator_norm", "blk.*.attn_norm" },           \
    { "model.layers.*.conv.in_proj", "blk.*.shortconv.in_proj" },    \
    { "model.layers.*.conv.conv", "blk.*.shortconv.conv" },          \
    { "model.layers.*.conv.out_proj", "blk.*.shortconv.out_proj" },  \
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },           \
    { "model.layers.*.self_attn.k_proj", "blk.*.attn_k" },           \
    { "model.layers.*.self_attn.v_proj", "blk.*.attn_v" },           \
    { "model.layers.*.self_attn.out_proj", "blk.*.attn_output" },    \
    { "model.layers.*.self_attn.q_layernorm", "blk.*.attn_q_norm" }, \
    { "model.layers.*.self_attn.k_layernorm", "blk.*.attn_k_norm" }, \
    { "model.layers.*.ffn_norm", "blk.*.ffn_norm" },                 \
    { "model.layers.*.feed_forward.w1", "blk.*.ffn_gate" },          \
    { "model.layers.*.feed_forward.w3", "blk.*.ffn_up" },            \
    { "model.layers.*.feed_forward.w2", "blk.*.ffn_down" },          \
    { "model.embedding_norm", "token_embd_norm" },                   \
    { "lm_head", "output" }

static const lm_name lfm2_names[] = { NAMES, { NULL, NULL } };

static const lm_name lfm2_moe_names[] = {
    NAMES,
    { "model.layers.*.feed_forward.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.feed_forward.expert_bias", "blk.*.exp_probs_b" },
    { "model.layers.*.feed_forward.experts.w1", "blk.*.ffn_gate_exps" },
    { "model.layers.*.feed_forward.experts.w3", "blk.*.ffn_up_exps" },
    { "model.layers.*.feed_forward.experts.w2", "blk.*.ffn_down_exps" },
    { NULL, NULL },
};

static const lm_order lfm2_orders[] = {
    { "ShortConv", "conv in_proj out_proj *" },
    { "Attention", "q_proj k_proj v_proj out_proj *" },
    { "MLP", "w1 w3 w2 *" },
    { "SparseMoeBlock", "experts gate *" },
    { "DecoderLayer", "self_attn conv feed_forward operator_norm ffn_norm *" },
    { "Model", "embed_tokens layers rotary_emb embedding_norm *" },
    { NULL, NULL },
};

static const lm_order lfm3_orders[] = {
    { "ShortConv", "conv in_proj out_proj *" },
    { "Attention", "q_proj k_proj v_proj o_proj q_norm k_norm gate_proj *" },
    { "MLP", "w1 w3 w2 *" },
    { "DecoderLayer", "self_attn conv feed_forward operator_norm ffn_norm post_operator_norm post_ffn_norm *" },
    { "Model", "embed_tokens layers rotary_emb embedding_norm *" },
    { NULL, NULL },
};

/* The second line is ignored by transformers too. */
#define KEYS                                                                                          \
    "norm_eps", "layer_types", "full_attn_idxs", "conv_L_cache", "conv_bias", "tie_embedding",        \
    "block_dim", "block_norm_eps", "block_use_swiglu", "block_use_xavier_init", "block_mlp_init_scale", "block_out_init_scale", \
    "conv_dim", "conv_dim_out", "conv_use_xavier_init", "num_heads", "use_pos_enc"

const lm_family lm_family_lfm2 = {
    .name         = "lfm2",
    .class_prefix = "Lfm2",
    .hf_types     = (const char *const[]){ "lfm2", NULL },
    .gguf_archs   = (const char *const[]){ "lfm2", NULL },
    .act_name     = "",
    .pad_token    = "0",
    .state_word   = "conv",
    .orders       = lfm2_orders,
    .configure    = lfm2_configure,
    .build        = lfm2_build,
    .own          = lfm2_own,
    .names        = lfm2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 128000 },
                                          { "intermediate_size", 12288 }, { "norm_eps", 1e-5 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ KEYS, "block_ff_dim", "block_auto_adjust_ff_dim", "block_ffn_dim_multiplier",
                                           "block_multiple_of", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_lfm2_moe = {
    .name         = "lfm2_moe",
    .class_prefix = "Lfm2Moe",
    .hf_types     = (const char *const[]){ "lfm2_moe", NULL },
    .gguf_archs   = (const char *const[]){ "lfm2moe", NULL },
    .act_name     = "",
    .pad_token    = "0",
    .state_word   = "conv",
    .orders       = lfm2_orders,
    .configure    = lfm2_moe_configure,
    .build        = lfm2_build,
    .own          = lfm2_moe_own,
    .names        = lfm2_moe_names,
    .gguf_renormalises = true,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 128000 },
                                          { "intermediate_size", 7168 }, { "moe_intermediate_size", 1792 },
                                          { "num_experts", 32 }, { "num_experts_per_tok", 4 },
                                          { "norm_eps", 1e-5 }, { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ KEYS, "num_experts", "num_experts_per_tok", "moe_intermediate_size",
                                           "num_dense_layers", "use_expert_bias", "norm_topk_prob",
                                           "routed_scaling_factor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_lfm3 = {
    .name         = "lfm3",
    .class_prefix = "Lfm3",
    .hf_types     = (const char *const[]){ "lfm3", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .act_name     = "",
    .pad_token    = "124893",
    .state_word   = "conv",
    .orders       = lfm3_orders,
    .configure    = lfm3_configure,
    .build        = lfm3_build,
    .own          = lfm3_own,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 128000 }, { "norm_eps", 1e-5 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "norm_eps", "layer_types", "conv_L_cache", "conv_bias",
                                           "sliding_window", "attention_bias", "use_attention_gate",
                                           "use_sandwich_norm", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.*inv_freq", NULL },
};
