/* granite_hybrid.c - Granite 4 (IBM, 2025): layers with a Mamba-2 mixer and layers with attention, most of
 * which do not rotate; then an MLP, or experts and a shared MLP. Granite's multipliers. */
#include "arch/families.h"

typedef struct granite_hybrid {
    lm_granite_moe mlp;                  /* must be first */
    bool           rotates;
} granite_hybrid;
LM_OWN_FITS(granite_hybrid);

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const granite_hybrid *own = lm_own(c);

    if (own->rotates)
        return lm_llama_attention(b, c, layer, x);
    lm_push(b, "self_attn", "%sAttention");
    lm_value y = lm_llama_scores(b, c, layer, lm_llama_heads(b, c, x));
    lm_pop(b);
    return y;
}

static lm_value layer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    float    residual = ((const granite_hybrid *)lm_own(c))->mlp.granite.residual;
    lm_value h        = lm_llama_norm(b, c, "input_layernorm", x);
    lm_value y        = c->stateful[i] ? lm_mamba2(b, c, "mamba", "%sMambaLayer", h) : attention(b, c, i, h);

    x = lm_add(b, x, lm_scale(b, y, residual));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_scale(b, lm_granite_mlp(b, c, h), residual));
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    return lm_granite_frame(b, c, layer);
}

static const lm_own_number own_numbers[] = {
    LM_GRANITE_NUMBERS,
    { NULL, "rope.scaling.finetuned", LM_OWN_BOOL, offsetof(granite_hybrid, rotates), 0, 1, 1, true },
    { 0 },
};

/* In config.json, only the word "rope" enables the rotation. */
static bool is_rotated(const lm_source *s)
{
    lm_meta_value v;

    return lm_meta_get(s->meta, "position_embedding_type", &v) && v.kind == LM_META_STRING &&
           lm_view_is(v.s, "rope");
}

static const lm_mamba_keys mamba_keys = {
    .heads     = "mamba_n_heads",
    .head_dim  = "mamba_d_head",
    .state     = "mamba_d_state",
    .groups    = "mamba_n_groups",
    .taps      = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .in_bias   = "mamba_proj_bias",
    .out_bias  = "mamba_proj_bias",
    .expand    = "mamba_expand",
};

static bool any_stateful(const lm_config *c)
{
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->stateful[i])
            return true;
    return false;
}

/* Without experts, the shared MLP is the only one. GGUF files have its width in feed_forward_length; those of
 * llama.cpp's converter in the key for shared experts, too. */
static lm_status settle_width(const lm_source *s, lm_config *c, lm_error *e)
{
    char key[128];

    if (c->route.n_experts)
        return LM_OK;
    if (s->kind != LM_GGUF) {
        c->intermediate = c->shared_width;
        return LM_OK;
    }
    lm_gguf_key(s, "expert_shared_feed_forward_length", key, sizeof key);
    if (lm_meta_has(s->meta, key) && c->shared_width != c->intermediate) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%u, but feed_forward_length is %u, and there are no experts",
                c->shared_width, c->intermediate);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    c->shared_width = c->intermediate;
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    granite_hybrid *own = lm_family_config_mut(c);

    LM_TRY(lm_read_mixed_sizes(s, "mamba", "rms_norm_eps", c, e));
    bool listed = s->kind == LM_GGUF || lm_meta_has(s->meta, "layer_types");
    for (uint32_t i = 0; !listed && i < c->n_layers; i++)
        c->stateful[i] = true;
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    if (c->rope.dim < c->head_dim)
        return lm_wrong(s, NULL, "rope.dimension_count", e, "%u, but Granite (a file with logit_scale) rotates %u",
                        c->rope.dim, c->head_dim);
    LM_TRY(lm_granite_multipliers(s, own_numbers, c, e));
    if (s->kind != LM_GGUF)
        own->rotates = is_rotated(s);
    c->attention.gguf_permutes = !own->rotates;
    LM_TRY(lm_granite_experts(s, 0, c, e));
    LM_TRY(settle_width(s, c, e));
    if (any_stateful(c))
        LM_TRY(lm_read_mamba2(s, &mamba_keys, c, e));
    c->mamba.act = c->act;
    return LM_OK;
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_MAMBA2_NAMES("model.layers.*.mamba"),
    { "model.layers.*.shared_mlp.gate_linear", "blk.*.ffn_gate" },
    { "model.layers.*.shared_mlp.up_linear", "blk.*.ffn_up" },
    { "model.layers.*.shared_mlp.output_linear", "blk.*.ffn_down" },
    { NULL, NULL },
};

static const lm_name names_of_experts[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_MAMBA2_NAMES("model.layers.*.mamba"),
    LM_GRANITE_EXPERT_NAMES,
    { NULL, NULL },
};

/* Return whether no layer has a state, there are no experts, and attention rotates: such files have the
 * architecture of Granite 3 in GGUF. */
static bool is_plain(const lm_source *s)
{
    lm_meta_value list, item;
    uint32_t      experts;

    if (!is_rotated(s) || lm_read_u32(s, "num_local_experts", NULL, 0, 0, -1, &experts, NULL) != LM_OK ||
        lm_meta_array(s->meta, "layer_types", LM_MAX_LAYERS, &list, NULL) != LM_OK)
        return false;
    for (uint64_t i = 0; lm_meta_at(&list, i, &item); i++)
        if (item.kind != LM_META_STRING ||
            (!lm_view_is(item.s, "attention") && !lm_view_is(item.s, "full_attention")))
            return false;
    return true;
}

static bool has_experts(const lm_source *s)
{
    uint32_t experts;

    return lm_read_u32(s, "num_local_experts", NULL, 0, 0, 8, &experts, NULL) != LM_OK || experts;
}

static const lm_order orders[] = {
    { "MambaLayer", "act conv1d in_proj norm out_proj *" },
    { "DecoderLayer", "input_layernorm post_attention_layernorm block_sparse_moe shared_mlp *" },
    { NULL, NULL },
};

static const lm_default defaults[] = {
    { "intermediate_size", 11008 }, { "shared_intermediate_size", 1024 }, { "num_local_experts", 8 },
    { "num_experts_per_tok", 2 }, { "mamba_n_heads", 128 }, { "mamba_n_groups", 1 }, { "mamba_d_state", 256 },
    { NULL, 0 },
};

static const char *const keys[] = {
    "hidden_act", "attention_bias", "embedding_multiplier", "residual_multiplier", "attention_multiplier",
    "logits_scaling", "num_local_experts", "num_experts_per_tok", "router_aux_loss_coef",
    "shared_intermediate_size", "position_embedding_type", "layer_types", "layers_block_type", "mamba_n_heads",
    "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_conv_bias", "mamba_proj_bias",
    "mamba_expand", "mamba_chunk_size", "time_step_limit", "init_method", "normalization_function", NULL,
};

#define COMMON                                                                                 \
    .class_prefix = "GraniteMoeHybrid", .state_word = "mamba", .attention_word = "attention",  \
    .mamba = &mamba_keys, .orders = orders, .configure = configure, .build = build,            \
    .own = own_numbers, .defaults = defaults, .keys = keys, .ignorable = ignorable

static const char *const ignorable[] = { "*.rotary_emb.inv_freq", NULL };

const lm_family lm_family_granite_hybrid = {
    COMMON,
    .name       = "granitemoehybrid",
    .hf_types   = (const char *const[]){ "granitemoehybrid", NULL },
    .gguf_archs = (const char *const[]){ "granitehybrid", NULL },
    .names      = names,
};

const lm_family lm_family_granite_hybrid_moe = {
    COMMON,
    .name       = "granitemoehybrid",
    .hf_types   = (const char *const[]){ "granitemoehybrid", NULL },
    .gguf_archs = (const char *const[]){ "granitehybrid", NULL },
    .gguf_key   = "expert_count",
    .suits      = has_experts,
    .names      = names_of_experts,
};

const lm_family lm_family_granite_4 = {
    COMMON,
    .name       = "granitemoehybrid",
    .hf_types   = (const char *const[]){ "granitemoehybrid", NULL },
    .gguf_as    = "granite",
    .suits      = is_plain,
    .names      = names,
};
