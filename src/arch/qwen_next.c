/* qwen_next.c - Qwen3-Next and Qwen3.5 (Alibaba, 2025 and 2026): layers with a gated delta rule (arXiv
 * 2412.06464) after a short convolution, and layers with attention whose output is gated; each followed by
 * an MLP or a mixture of experts with a shared expert. Norms are stored less one, except that of the delta
 * rule. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/families.h"

/* How the projections of the delta rule are stored. */
typedef enum qwen_storage {
    STORED_BY_HEAD,                      /* in_proj_qkvz, in_proj_ba: by key head (Qwen3-Next) */
    STORED_Z_APART,                      /* in_proj_qkv, in_proj_z; in_proj_ba by key head (its GGUF files) */
    STORED_APART,                        /* in_proj_qkv, in_proj_z, in_proj_b, in_proj_a (Qwen3.5) */
} qwen_storage;

typedef struct qwen_next {
    uint32_t taps, k_heads, v_heads, k_dim, v_dim, inner;       /* inner: v_heads v_dim */
    uint32_t every;                      /* n-th layer that has attention, if they are not listed */
    uint8_t  storage;
    bool     tiles;                      /* GGUF files store heads of values in another order (Qwen3.5) */
    bool     joined;                     /* gate and up of all experts are one tensor, as published; else each
                                            expert is stored separately */
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} qwen_next;
LM_OWN_FITS(qwen_next);

#define OWN(member) offsetof(qwen_next, member)
static const lm_own_number qwen_next_own[] = {
    { "linear_conv_kernel_dim", "ssm.conv_kernel", LM_OWN_U32, OWN(taps), 2, 64, 4, true },
    { "linear_num_key_heads", "ssm.group_count", LM_OWN_U32, OWN(k_heads), 1, 1024, 16, true },
    { "linear_num_value_heads", "ssm.time_step_rank", LM_OWN_U32, OWN(v_heads), 1, 1024, 32, true },
    { "linear_key_head_dim", "ssm.state_size", LM_OWN_U32, OWN(k_dim), 1, 1024, 128, true },
    { "linear_value_head_dim", NULL, LM_OWN_U32, OWN(v_dim), 1, 1024, 128, false },
    { "full_attention_interval", "full_attention_interval", LM_OWN_U32, OWN(every), 1, LM_MAX_LAYERS, 4, true },
    { NULL, "ssm.inner_size", LM_OWN_U32, OWN(inner), 0, 1 << 20, 0, true },
    { NULL, NULL, LM_OWN_U32, 0, 0, 0, 0, false },
};

/* ---- the delta rule ---- */

typedef struct delta_inputs { lm_value qkv, z, b, a; } delta_inputs;

static lm_value joined(lm_builder *b, const char *word, lm_value x, lm_value y)
{
    return lm_join(b, word, x, y, 1, false);
}

/* The heads of values, of `width` rows each, that follow row `first` of a weight; or its columns. */
static lm_value tiled(lm_builder *b, const lm_config *c, lm_value x, uint32_t first, uint32_t width,
                      bool columns)
{
    const qwen_next *own = lm_own(c);
    lm_gguf_layout        l   = { .first     = first,
                             .key_heads = own->k_heads,
                             .each      = own->v_heads / own->k_heads,
                             .width     = width,
                             .columns   = columns };

    if (own->tiles && l.each > 1)
        lm_stored_in_layout(b, x, &l);
    return x;
}

/* The GGUF names of the two tensors that have the rows of in_proj_qkvz. */
static void stored_by_head(lm_builder *b, const lm_config *c, lm_value x, uint32_t layer)
{
    const qwen_next *own  = lm_own(c);
    uint32_t         keys = own->k_heads * own->k_dim, wide = own->inner / own->k_heads;
    lm_gguf_layout        l    = { .groups = own->k_heads,
                              .parts  = { own->k_dim, own->k_dim, wide, wide },
                              .rows   = { 2 * keys + own->inner, own->inner } };
    char             names[2][64];

    snprintf(names[0], sizeof names[0], "blk.%u.attn_qkv.weight", layer);
    snprintf(names[1], sizeof names[1], "blk.%u.attn_gate.weight", layer);
    l.gguf[0] = names[0];
    l.gguf[1] = names[1];
    lm_stored_in_layout(b, x, &l);
}

static delta_inputs project(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const qwen_next *own = lm_own(c);
    uint32_t keys = own->k_heads * own->k_dim, values = own->v_heads * own->v_dim, n = own->k_heads,
             each = own->v_heads / n, wide = each * own->v_dim;
    delta_inputs in;

    if (own->storage == STORED_BY_HEAD) {
        lm_value all = lm_linear(b, "in_proj_qkvz", x, 2 * (keys + values), false);
        stored_by_head(b, c, all, layer);
        in.qkv       = joined(b, "qk", lm_columns(b, "q", all, n, 0, own->k_dim),
                              lm_columns(b, "k", all, n, own->k_dim, own->k_dim));
        in.qkv       = joined(b, "qkv", in.qkv, lm_columns(b, "v", all, n, 2 * own->k_dim, wide));
        in.z         = lm_columns(b, "z", all, n, 2 * own->k_dim + wide, wide);
    } else {
        in.qkv = tiled(b, c, lm_linear(b, "in_proj_qkv", x, 2 * keys + values, false), 2 * keys, own->v_dim,
                       false);
        in.z   = tiled(b, c, lm_linear(b, "in_proj_z", x, values, false), 0, own->v_dim, false);
    }
    if (own->storage == STORED_APART) {
        in.b = tiled(b, c, lm_linear(b, "in_proj_b", x, own->v_heads, false), 0, 1, false);
        in.a = tiled(b, c, lm_linear(b, "in_proj_a", x, own->v_heads, false), 0, 1, false);
    } else {
        lm_value both = lm_linear(b, "in_proj_ba", x, 2 * own->v_heads, false);
        in.b          = lm_columns(b, "b", both, n, 0, each);
        in.a          = lm_columns(b, "a", both, n, each, each);
    }
    return in;
}

/* exp(-exp(A_log) softplus(a + dt_bias)) */
static lm_value decays(lm_builder *b, const lm_config *c, lm_value a)
{
    const qwen_next *own   = lm_own(c);
    lm_value         steps = tiled(b, c, lm_add_bias(b, "dt_bias", a), 0, 1, false);

    steps = lm_function(b, "dt", steps, LM_ACT_SOFTPLUS);
    return tiled(b, c, lm_decay(b, "A_log", steps, own->v_heads), 0, 1, false);
}

static lm_value delta_rule(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const qwen_next *own  = lm_own(c);
    uint32_t         keys = own->k_heads * own->k_dim;
    float            one  = 1 / sqrtf((float)own->k_dim);
    lm_recurrence    rule = {
        .n_heads     = own->v_heads,
        .n_key_heads = own->k_heads,
        .k_dim       = own->k_dim,
        .v_dim       = own->v_dim,
        .delta       = true,
        .tiled       = own->tiles && c->gguf_layout,
    };

    lm_push(b, "linear_attn", "%sGatedDeltaNet");
    delta_inputs in  = project(b, c, layer, x);
    lm_value     qkv = lm_causal_conv(b, "conv1d", in.qkv, own->taps, false);
    qkv = lm_function(b, "qkv_act", tiled(b, c, qkv, 2 * keys, own->v_dim, false), c->act);
    lm_value q = lm_columns(b, "queries", qkv, 1, 0, keys), k = lm_columns(b, "keys", qkv, 1, keys, keys);
    lm_value v = lm_columns(b, "values", qkv, 1, 2 * keys, own->inner);
    q          = lm_unit_heads(b, "q_unit", q, own->k_heads, 1e-6f, one);
    k          = lm_unit_heads(b, "k_unit", k, own->k_heads, 1e-6f, 1);
    lm_value beta = lm_function(b, "beta", in.b, LM_ACT_SIGMOID);
    lm_value y    = lm_linear_recurrence(b, "delta_rule", &rule, q, k, v, decays(b, c, in.a), beta);
    y = lm_rms_norm_gated(b, "norm", y, in.z, own->v_heads, c->norm_eps, LM_ACT_SILU);
    y = tiled(b, c, lm_linear(b, "out_proj", y, c->hidden, false), 0, own->v_dim, true);
    lm_pop(b);
    return y;
}

/* ---- attention ---- */

static lm_value norm_of_heads(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t heads)
{
    lm_value y = lm_rms_norm_heads(b, name, x, heads, c->norm_eps);

    lm_stored_minus_one(b, y);
    return y;
}

/* The projection of each query head is followed by that of its gate. */
static lm_value gated_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);
    uint32_t          d = c->head_dim, values = c->n_kv_heads * d;
    lm_heads          h;

    lm_push(b, "self_attn", "%sAttention");
    lm_value both = lm_linear(b, "q_proj", x, 2 * c->n_heads * d, c->bias_qkv);
    h.q           = norm_of_heads(b, c, "q_norm", lm_columns(b, "q", both, c->n_heads, 0, d), c->n_heads);
    h.k = norm_of_heads(b, c, "k_norm", lm_linear(b, "k_proj", x, values, c->bias_qkv), c->n_kv_heads);
    h.v = lm_linear(b, "v_proj", x, values, c->bias_qkv);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value gate = lm_columns(b, "gate", both, c->n_heads, d, d);
    lm_value y    = lm_gate(b, "gated", gate, lm_attention(b, h.q, h.k, h.v, &scores), LM_ACT_SIGMOID);
    y             = lm_linear(b, "o_proj", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

/* ---- the decoder ---- */

static lm_value qwen_next_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const qwen_next *own = lm_own(c);
    lm_value         h   = lm_gemma_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, c->stateful[layer] ? delta_rule(b, c, layer, h) : gated_attention(b, c, layer, h));
    h = lm_gemma_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_qwen_moe(b, c, own->joined, h));
}

static lm_value qwen3_next_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = qwen_next_layer, .norm = lm_gemma_norm });
}

static lm_value qwen3_5_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .model_class = "%sTextModel",
                                                 .rotary_class = "%sTextRotaryEmbedding",
                                                 .layer = qwen_next_layer,
                                                 .norm = lm_gemma_norm });
}

/* ---- configuration ---- */

lm_status lm_read_flags(const lm_source *s, const char *name, uint32_t entries, bool *flags, lm_error *e)
{
    char          key[128];
    lm_meta_value list, item;

    if (s->kind != LM_GGUF || !lm_meta_has(s->meta, lm_gguf_key(s, name, key, sizeof key)))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    if (list.a.n != entries)
        return lm_wrong(s, NULL, name, e, "%" PRIu64 " entries for %u layers", list.a.n, entries);
    for (uint32_t i = 0; i < entries; i++) {
        if (!lm_meta_at(&list, i, &item) || item.kind != LM_META_BOOL)
            return lm_wrong(s, NULL, name, e, "entry %u is not true or false", i);
        flags[i] = item.b;
    }
    return LM_OK;
}

/* GGUF lists the layers with a state, or gives the distance of those without. */
static lm_status read_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    const qwen_next *own = lm_own(c);

    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "layer_types"))
        return LM_OK;                            /* read with the sizes */
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->stateful[i] = (i + 1) % own->every != 0;
    return lm_read_flags(s, "attention.recurrent_layers", c->n_layers + c->n_further, c->stateful, e);
}

static lm_status read_delta_rule(const lm_source *s, lm_config *c, lm_error *e)
{
    qwen_next *own = lm_family_config_mut(c);

    LM_TRY(lm_read_own(s, qwen_next_own, c, e));
    if (own->v_heads % own->k_heads)
        return lm_wrong(s, "linear_num_value_heads", "ssm.time_step_rank", e,
                        "%u is not a multiple of the number of key heads, %u", own->v_heads, own->k_heads);
    if (s->pair)                                 /* the same width in GGUF files */
        s->pair(s->pair_arg, "linear_value_head_dim", "ssm.state_size");
    if (s->kind != LM_GGUF) {
        own->inner = own->v_heads * own->v_dim;
        return LM_OK;
    }
    own->v_dim = own->inner / own->v_heads;
    return own->v_dim && own->v_dim * own->v_heads == own->inner
               ? LM_OK
               : lm_wrong(s, NULL, "ssm.inner_size", e,
                          "%u is not a multiple of the number of value heads, %u", own->inner, own->v_heads);
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_read_mixed_sizes(s, "linear_attention", "rms_norm_eps", c, e));
    LM_TRY(read_delta_rule(s, c, e));
    LM_TRY(read_layers(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    if (s->kind != LM_GGUF)
        LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.25, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    c->gguf_layout  = s->kind == LM_GGUF;
    return LM_OK;
}

static lm_status read_experts(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_qwen_experts(s, true, c, e));
    return lm_read_u32(s, "shared_expert_intermediate_size", "expert_shared_feed_forward_length", 1, 1u << 20,
                       c->expert_width, &c->shared_width, e);
}

static lm_status qwen3_next_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    qwen_next *own = lm_family_config_mut(c);

    LM_TRY(configure(s, c, e));
    LM_TRY(read_experts(s, c, e));
    own->storage = s->kind == LM_GGUF ? STORED_Z_APART : STORED_BY_HEAD;
    return lm_read_dense_layers(s, c, own->dense, e);
}

/* How the lanes of the rotation are shared by three positions, which only images tell apart. */
static lm_status read_sections(const lm_source *s, lm_config *c, lm_error *e)
{
    const char   *key = "rope_parameters/mrope_section";
    lm_meta_value list, item;

    memcpy(c->sections, (const int32_t[]){ 11, 11, 10 }, sizeof c->sections);
    if (s->kind == LM_GGUF || !lm_meta_get(s->meta, key, &list))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, 4, &list, e));
    if (list.a.n != 3)
        return lm_wrong(s, key, NULL, e,
                        "%" PRIu64 " entries; 3 are expected, which share the pairs of a head", list.a.n);
    for (uint32_t i = 0; i < 3; i++) {
        if (!lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT || item.u > c->head_dim / 2)
            return lm_wrong(s, key, NULL, e,
                            "entry %u is not a whole number from 0 to %u, half of head_dim", i,
                            c->head_dim / 2);
        c->sections[i] = (int32_t)item.u;
    }
    return LM_OK;
}

static lm_status qwen3_5_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    qwen_next *own = lm_family_config_mut(c);

    LM_TRY(configure(s, c, e));
    LM_TRY(read_experts(s, c, e));
    c->route.renormalise = true;
    c->intermediate      = c->expert_width;      /* there are no other MLPs */
    own->joined          = !lm_has_tensor(s, "model.layers.0.mlp.experts.0.gate_proj.weight");
    own->storage         = STORED_APART;
    own->tiles           = true;
    return read_sections(s, c, e);
}

static lm_status qwen3_5_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    qwen_next *own = lm_family_config_mut(c);

    LM_TRY(configure(s, c, e));
    own->storage = STORED_APART;
    own->tiles   = true;
    for (uint32_t i = 0; i < c->n_layers; i++)
        own->dense[i] = true;
    return read_sections(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" },
    { "model.layers.*.linear_attn.in_proj_qkv", "blk.*.attn_qkv" },
    { "model.layers.*.linear_attn.in_proj_z", "blk.*.attn_gate" },
    { "model.layers.*.linear_attn.in_proj_ba", "blk.*.ssm_ba" },
    { "model.layers.*.linear_attn.in_proj_b", "blk.*.ssm_beta" },
    { "model.layers.*.linear_attn.in_proj_a", "blk.*.ssm_alpha" },
    { "model.layers.*.linear_attn.conv1d", "blk.*.ssm_conv1d" },
    { "model.layers.*.linear_attn.dt_bias", "blk.*.ssm_dt.bias" },
    { "model.layers.*.linear_attn.A_log", "blk.*.ssm_a" },
    { "model.layers.*.linear_attn.norm", "blk.*.ssm_norm" },
    { "model.layers.*.linear_attn.out_proj", "blk.*.ssm_out" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
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

static const lm_order orders[] = {
    { "Attention", "q_proj k_proj v_proj o_proj *" },
    { "GatedDeltaNet", "conv1d in_proj_qkvz in_proj_ba norm out_proj *" },
    { "DecoderLayer", "linear_attn self_attn mlp *" },
    { NULL, NULL },
};

static const char *const keys[] = {
    "hidden_act", "attention_bias", "partial_rotary_factor", "layer_types", "full_attention_interval",
    "linear_conv_kernel_dim", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
    "shared_expert_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers",
    "router_aux_loss_coef", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype",
    "attn_output_gate", "output_gate_type", NULL,
};

static const char *const ignorable[] = { "*.rotary_emb.inv_freq", "mtp.*", NULL };

const lm_family lm_family_qwen3_next = {
    .name         = "qwen3_next",
    .class_prefix = "Qwen3Next",
    .hf_types     = (const char *const[]){ "qwen3_next", NULL },
    .gguf_archs   = (const char *const[]){ "qwen3next", NULL },
    .orders       = orders,
    .state_word   = "linear_attention",
    .lists_states = true,
    .configure    = qwen3_next_configure,
    .build        = qwen3_next_build,
    .own          = qwen_next_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 32768 }, { "intermediate_size", 5632 },
                                          { "num_experts", 512 }, { "num_experts_per_tok", 10 },
                                          { "moe_intermediate_size", 512 }, { "shared_expert_intermediate_size", 512 },
                                          { "norm_topk_prob", true }, { NULL, 0 } },
    .keys         = keys,
    .ignorable    = ignorable,
    .layers       = "model.layers.",
};

const lm_family lm_family_qwen3_5 = {
    .name         = "qwen3_5",
    .class_prefix = "Qwen3_5",
    .hf_types     = (const char *const[]){ "qwen3_5_text", NULL },
    .gguf_archs   = (const char *const[]){ "qwen35", NULL },
    .orders       = orders,
    .state_word   = "linear_attention",
    .lists_states = true,
    .configure    = qwen3_5_configure,
    .build        = qwen3_5_build,
    .own          = qwen_next_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 32768 }, { "intermediate_size", 12288 },
                                          { NULL, 0 } },
    .keys         = keys,
    .ignorable    = ignorable,
    .layers       = "model.layers.",
};

const lm_family lm_family_qwen3_5_moe = {
    .name         = "qwen3_5_moe",
    .class_prefix = "Qwen3_5Moe",
    .hf_types     = (const char *const[]){ "qwen3_5_moe_text", NULL },
    .gguf_archs   = (const char *const[]){ "qwen35moe", NULL },
    .orders       = orders,
    .state_word   = "linear_attention",
    .lists_states = true,
    .experts_only = true,
    .configure    = qwen3_5_moe_configure,
    .build        = qwen3_5_build,
    .own          = qwen_next_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 32768 }, { "intermediate_size", 512 },
                                          { "num_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 512 }, { "shared_expert_intermediate_size", 512 },
                                          { NULL, 0 } },
    .keys         = keys,
    .ignorable    = ignorable,
    .layers       = "model.layers.",
};
