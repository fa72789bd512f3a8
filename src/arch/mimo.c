/* mimo.c - MiMo V2 Flash (Xiaomi, 2026): values narrower than keys and multiplied by a constant, a third of
 * each head rotated, and mixtures whose choice is corrected after the first layer. Five of six layers have a
 * window, sinks, twice as many key/value heads and another base of the rotation. */
#include <inttypes.h>

#include "arch/families.h"

typedef struct mimo {
    float value_scale;
    bool  dense[LM_MAX_LAYERS];          /* layers with a plain MLP */
} mimo;
LM_OWN_FITS(mimo);

static const lm_own_number own_numbers[] = {
    { "attention_value_scale", "attention.value_scale", LM_OWN_F32, offsetof(mimo, value_scale), 1e-6, 1e6, 1, false },
    { 0 },
};

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const mimo         *own  = lm_own(c);
    lm_attention_spec   a    = lm_layer_attention(c, layer);
    const lm_rope_spec *rope = c->full[layer] ? &c->rope : &c->local.rope;

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_layer_heads(b, c, &a, x);
    h.q        = lm_rope(b, h.q, a.n_heads, rope);
    h.k        = lm_rope(b, h.k, a.n_kv_heads, rope);
    h.v        = own->value_scale != 1 ? lm_scale(b, h.v, own->value_scale) : h.v;
    lm_value o = lm_linear(b, "o_proj", lm_attention(b, h.q, h.k, h.v, &a), c->hidden, false);
    lm_pop(b);
    return o;
}

static lm_value mimo_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const mimo *own = lm_own(c);

    x          = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_routed_mlp(b, c, h));
}

static lm_value mimo_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = mimo_layer });
}

/* ---- metadata: published files have their own members of config.json, transformers writes others ---- */

/* Read a list of a 0 or 1 for each layer. */
static lm_status read_zeros(const lm_source *s, const char *key, bool *zero, const lm_config *c, lm_error *e)
{
    lm_meta_value list, item;

    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    if (list.a.n != c->n_layers)
        return lm_wrong(s, key, NULL, e, "%" PRIu64 " entries for %u layers", list.a.n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT || item.u > 1)
            return lm_wrong(s, key, NULL, e, "entry %u is neither 0 nor 1", i);
        zero[i] = !item.u;
    }
    return LM_OK;
}

static lm_status read_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t before;

    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 129, c, e));
    if (s->kind == LM_GGUF) {
        LM_TRY(lm_read_window_pattern(s, NULL, 1, c, e));
    } else {
        /* in addition to the query's own */
        LM_TRY(lm_read_u32(s, "sliding_window_size", NULL, 0, UINT32_MAX - 1, c->attention.window - 1,
                           &before, e));
        c->attention.window = before + 1;
    }
    if (!c->attention.window)
        return lm_wrong(s, "sliding_window", "attention.sliding_window", e,
                        "missing; layers without a window have no form in this family");
    if (s->kind == LM_GGUF || lm_meta_has(s->meta, "layer_types"))
        return LM_OK;
    if (lm_meta_has(s->meta, "hybrid_layer_pattern"))
        return read_zeros(s, "hybrid_layer_pattern", c->full, c, e);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->full[i] = i == 0 || (i + 1) % 6 == 0;
    return LM_OK;
}

/* Check the sizes of layers with a window, which published files say apart. */
static lm_status check_local(const lm_source *s, const lm_config *c, lm_error *e)
{
    uint32_t v;

    LM_TRY(lm_read_u32(s, "swa_num_attention_heads", NULL, c->n_heads, c->n_heads, c->n_heads, &v, e));
    LM_TRY(lm_read_u32(s, "swa_head_dim", NULL, c->head_dim, c->head_dim, c->head_dim, &v, e));
    LM_TRY(lm_read_u32(s, "swa_v_head_dim", NULL, c->local.v_dim, c->local.v_dim, c->local.v_dim, &v, e));
    LM_TRY(lm_expect_bool(s, "add_swa_attention_sink_bias", true, e));
    return lm_expect_bool(s, "add_full_attention_sink_bias", false, e);
}

static lm_status read_attention(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes, window = c->attention.window;
    float    base;

    LM_TRY(lm_read_rotary_lanes_of(s, "partial_rotary_factor", 0.334, false, c, &lanes, e));
    LM_TRY(lm_read_f32(s, "swa_rope_theta", "rope.freq_base_swa", 1e-3, 1e30, 10000, &base, e));
    LM_TRY(lm_read_two_ropes(s, lanes, 5e6, (double)base, c, &c->local.rope, e));
    LM_TRY(lm_read_rotary_lanes_of(s, "partial_rotary_factor", 0.334, true, c, &c->local.rope.dim, e));
    c->rope.pairing        = c->local.rope.pairing = LM_ROPE_HALF;
    c->attention           = lm_plain_attention(c);
    c->attention.v_dim     = c->local.v_dim;
    c->attention.window    = window;
    c->attention.sink_name = "attention_sink_bias";
    c->local.head_dim      = c->head_dim;
    c->local.sinks         = true;
    return check_local(s, c, e);
}

static lm_status read_mlps(const lm_source *s, lm_config *c, lm_error *e)
{
    mimo           *own  = lm_family_config_mut(c);
    lm_mixture_keys keys = lm_deepseek_keys;
    uint32_t        shared;

    keys.shared     = NULL;
    keys.normalises = true;
    LM_TRY(lm_read_u32(s, "n_shared_experts", NULL, 0, 0, 0, &shared, e));
    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    if (s->kind != LM_GGUF && !lm_meta_has(s->meta, "mlp_layer_types") &&
        lm_meta_has(s->meta, "moe_layer_freq"))
        return read_zeros(s, "moe_layer_freq", own->dense, c, e);
    LM_TRY(lm_read_mlp_kinds(s, 1, own->dense, c, e));
    lm_find_mlp_kinds(s, own->dense, c);
    return LM_OK;
}

static lm_status mimo_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_kind_keys kinds = { .windows = read_windows, .v_dim = "v_head_dim",
                                        .kv_heads = "swa_num_key_value_heads", .kv_factor = 2 };

    LM_TRY(lm_read_sizes_by_kind(s, &kinds, c, e));
    if (s->kind != LM_GGUF && !lm_meta_has(s->meta, "rms_norm_eps"))
        LM_TRY(lm_read_f32(s, "layernorm_epsilon", NULL, 1e-20, 1, (double)c->norm_eps, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    c->bias_o = c->bias_mlp = false;
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(read_attention(s, c, e));
    return read_mlps(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.attention_sink_bias", "blk.*.attn_sinks" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

static const lm_mixture_keys mixture = { .experts = "n_routed_experts", .top_k = "num_experts_per_tok",
                                         .scale = "routed_scaling_factor", .groups = "n_group",
                                         .gguf_shared = LM_SHARED_UNSAID };

const lm_family lm_family_mimo_v2_flash = {
    .name         = "mimo_v2_flash",
    .class_prefix = "MiMoV2Flash",
    .hf_types     = (const char *const[]){ "mimo_v2_flash", NULL },
    .gguf_archs   = (const char *const[]){ "mimo2", NULL },
    .configure    = mimo_configure,
    .build        = mimo_build,
    .own          = own_numbers,
    .mixture      = &mixture,
    .gguf_renormalises = true,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 192 },
                                          { "v_head_dim", 128 }, { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "n_routed_experts", 256 },
                                          { "num_experts_per_tok", 8 }, { "moe_intermediate_size", 2048 },
                                          { "attention_value_scale", 0.707 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "v_head_dim", "layer_types",
                                           "sliding_window", "sliding_window_size", "hybrid_layer_pattern",
                                           "mlp_layer_types", "moe_layer_freq", "n_routed_experts",
                                           "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size",
                                           "routed_scaling_factor", "norm_topk_prob", "scoring_func",
                                           "topk_method", "n_group", "topk_group", "attention_value_scale",
                                           "partial_rotary_factor", "swa_rope_theta", "swa_num_attention_heads",
                                           "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
                                           "add_swa_attention_sink_bias", "add_full_attention_sink_bias",
                                           "layernorm_epsilon", "attention_chunk_size", "hybrid_block_size",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "model.mtp.*", NULL },
    .layers       = "model.layers.",
};
