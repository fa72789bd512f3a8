/* nemotron_h.c - Nemotron-H (arXiv 2504.03624), Nemotron Nano 2 and 3: one mixer per layer, which is Mamba-2,
 * attention without positions, an MLP, or experts without gates, which may work on a latent. */
#include <inttypes.h>
#include <string.h>

#include "arch/families.h"

typedef struct nemotron_h {
    float    eps;
    uint32_t latent;                     /* of the experts; 0: none */
    char     kinds[LM_MAX_LAYERS];       /* 'M' Mamba-2, '*' attention, '-' MLP, 'E' experts */
} nemotron_h;
LM_OWN_FITS(nemotron_h);

static const lm_own_number own_numbers[] = {
    { "layer_norm_epsilon", "attention.layer_norm_epsilon", LM_OWN_F32, offsetof(nemotron_h, eps), 1e-20, 1, 1e-5, true },
    { "moe_latent_size", "moe_latent_size", LM_OWN_U32, offsetof(nemotron_h, latent), 0, 1 << 20, 0, false },
    { 0 },
};

/* ---- the model ---- */

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "mixer", "%sAttention");
    lm_value y = lm_llama_scores(b, c, layer, lm_llama_heads(b, c, x));
    lm_pop(b);
    return y;
}

static lm_value mlp(lm_builder *b, const lm_config *c, const char *name, uint32_t width, lm_value x)
{
    lm_push(b, name, "%sMLP");
    x = lm_activate(b, lm_linear(b, "up_proj", x, width, c->bias_mlp), c->act);
    x = lm_linear(b, "down_proj", x, c->hidden, c->bias_mlp);
    lm_pop(b);
    return x;
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    const nemotron_h *own = lm_own(c);

    lm_push(b, "mixer", "%sMoE");
    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route,
                              "gate.e_score_correction_bias");
    lm_value in    = own->latent ? lm_linear(b, "fc1_latent_proj", x, own->latent, c->bias_mlp) : x;
    lm_value y     = lm_experts_of(b, "experts", in, route,
                                   &(lm_expert_spec){ .n_experts = c->route.n_experts,
                                                      .top_k = c->route.top_k,
                                                      .width = c->expert_width,
                                                      .act = c->act,
                                                      .names = { NULL, "up_proj", "down_proj" } });
    if (own->latent)
        y = lm_linear(b, "fc2_latent_proj", y, c->hidden, c->bias_mlp);
    y = lm_add(b, y, mlp(b, c, "shared_experts", c->shared_width, x));
    lm_pop(b);
    return y;
}

static lm_value mixer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    switch (((const nemotron_h *)lm_own(c))->kinds[i]) {
    case 'M':
        return lm_mamba2(b, c, "mixer", "%sMamba2Mixer", x);
    case '*':
        return attention(b, c, i, x);
    case 'E':
        return mixture(b, c, x);
    default:
        return mlp(b, c, "mixer", c->intermediate, x);
    }
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "backbone", "%sModel");
    lm_value x = lm_embedding(b, "embeddings", c->vocab_size, c->hidden);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        x = lm_add(b, x, mixer(b, c, i, lm_llama_norm(b, c, "norm", x)));
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_llama_norm(b, c, "norm_f", x);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "backbone.embeddings" : NULL);
}

/* ---- metadata ---- */

static char kind_of(lm_view word)
{
    static const struct { const char *word; char kind; } words[] = {
        { "mamba", 'M' }, { "linear_attention", 'M' }, { "attention", '*' }, { "full_attention", '*' }, { "mlp", '-' }, { "moe", 'E' },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_view_is(word, words[i].word))
            return words[i].kind;
    return 0;
}

/* Read the kinds from layers_block_type, otherwise from hybrid_override_pattern, otherwise transformers' four
 * layers. */
static lm_status read_kinds(const lm_source *s, uint32_t *n_layers, char kinds[LM_MAX_LAYERS], lm_error *e)
{
    const char   *key = "layers_block_type";
    lm_view       pattern = LM_VIEW("ME*-");
    lm_meta_value list, item;

    if (lm_meta_has(s->meta, key)) {
        LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
        for (uint64_t i = 0; lm_meta_at(&list, i, &item); i++) {
            lm_view word = item.kind == LM_META_STRING ? item.s : LM_VIEW("");
            if (!(kinds[i] = kind_of(word)))
                return lm_wrong(s, key, NULL, e,
                                "layer %" PRIu64 " is \"%.*s\"; mamba, attention, mlp or moe is expected", i,
                                (int)(word.size < 64 ? word.size : 64), word.data);
        }
        *n_layers = (uint32_t)list.a.n;
    } else {
        key = "hybrid_override_pattern";
        if (lm_meta_has(s->meta, key))
            LM_TRY(lm_meta_string(s->meta, key, &pattern, e));
        if (pattern.size > LM_MAX_LAYERS)
            return lm_wrong(s, key, NULL, e, "%zu layers; at most %d are supported", pattern.size,
                            LM_MAX_LAYERS);
        for (size_t i = 0; i < pattern.size; i++)
            if (!pattern.data[i] || !strchr("M*-E", kinds[i] = pattern.data[i]))
                return lm_wrong(s, key, NULL, e, "layer %zu is %c; M, *, - or E is expected", i,
                                pattern.data[i]);
        *n_layers = (uint32_t)pattern.size;
    }
    return *n_layers ? LM_OK : lm_wrong(s, key, NULL, e, "has no layer");
}

/* GGUF: a layer with key-value heads has attention, one with a width has an MLP or experts. */
static lm_status read_gguf_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    nemotron_h *own = lm_family_config_mut(c);

    LM_TRY(lm_read_layers(s, c, e));
    LM_TRY(lm_read_per_layer(s, "intermediate_size", "feed_forward_length", 1u << 20, -1, c, c->no_mlp,
                             &c->intermediate, e));
    LM_TRY(lm_read_per_layer(s, "num_key_value_heads", "attention.head_count_kv", 1u << 20, -1, c,
                             c->no_attention, &c->n_kv_heads, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        own->kinds[i] = !c->no_attention[i] ? '*' : c->no_mlp[i] ? 'M' : c->route.n_experts ? 'E' : '-';
        if (!c->no_attention[i] && !c->no_mlp[i])
            return lm_wrong(s, NULL, "feed_forward_length", e, "layer %u has both attention and an MLP", i);
    }
    return LM_OK;
}

static lm_status read_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    nemotron_h *own = lm_family_config_mut(c);
    uint32_t    stated;

    if (s->kind == LM_GGUF) {
        LM_TRY(read_gguf_layers(s, c, e));
    } else {
        LM_TRY(read_kinds(s, &c->n_layers, own->kinds, e));
        LM_TRY(
            lm_read_u32(s, "num_hidden_layers", NULL, 1, LM_MAX_LAYERS, c->n_layers, &stated, e));
        if (stated != c->n_layers)
            lm_source_warn(s, "num_hidden_layers is %u, but the list of layers has %u, which are read",
                           stated, c->n_layers);
        LM_TRY(lm_read_u32(s, "intermediate_size", NULL, 1, 1u << 20, -1, &c->intermediate, e));
        LM_TRY(lm_read_u32(s, "num_key_value_heads", NULL, 1, 1024, c->n_heads, &c->n_kv_heads, e));
    }
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->stateful[i]     = own->kinds[i] == 'M';
        c->no_attention[i] = own->kinds[i] != '*';
        c->no_mlp[i]       = own->kinds[i] == 'M' || own->kinds[i] == '*';
    }
    return LM_OK;
}

static bool has_kind(const lm_config *c, char kind)
{
    return memchr(((const nemotron_h *)lm_own(c))->kinds, kind, c->n_layers);
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_route_spec *r    = &c->route;
    bool           gguf = s->kind == LM_GGUF;

    r->sigmoid = r->group_sum_two = true;
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, r->n_experts, gguf ? -1 : 2,
                       &r->top_k, e));
    LM_TRY(lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", !gguf, &r->renormalise, e));
    LM_TRY(lm_read_f32(s, "routed_scaling_factor", "expert_weights_scale", 1e-6, 1e6, 1, &r->scale, e));
    LM_TRY(lm_read_u32(s, "n_group", "expert_group_count", 1, LM_MAX_GROUPS, 1, &r->n_groups, e));
    LM_TRY(lm_read_u32(s, "topk_group", "expert_group_used_count", 1, r->n_groups, 1, &r->top_groups, e));
    LM_TRY(lm_read_u32(s, "moe_intermediate_size", "expert_feed_forward_length", 1, 1u << 20,
                       gguf ? (int64_t)c->intermediate : 7688, &c->expert_width, e));
    LM_TRY(lm_read_u32(s, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", 1,
                       1u << 20, gguf ? -1 : 7688, &c->shared_width, e));
    if (!has_kind(c, '-'))               /* then GGUF has no other width */
        c->intermediate = c->expert_width;
    if (c->act != LM_ACT_RELU2)
        return lm_no_form(s, "mlp_hidden_act", "experts of this family have the activation relu2", e);
    return LM_OK;
}

/* Some configurations have Mamba's own names for the sizes of its layers. */
static const lm_mamba_keys mamba_keys = {
    .heads = "mamba_num_heads", .head_dim = "mamba_head_dim", .state = "ssm_state_size", .groups = "n_groups",
    .taps = "conv_kernel", .conv_bias = "use_conv_bias", .in_bias = "use_bias", .out_bias = "use_bias",
};

static const char *named(const lm_source *s, const char *name, const char *other)
{
    return s->kind != LM_GGUF && lm_meta_has(s->meta, other) ? other : name;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    nemotron_h   *own = lm_family_config_mut(c);
    lm_mamba_keys k   = mamba_keys;
    bool          gguf = s->kind == LM_GGUF;

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "n_routed_experts", "expert_count", 0, LM_MAX_EXPERTS, gguf ? 0 : 8,
                       &c->route.n_experts, e));
    LM_TRY(read_layers(s, c, e));
    if (c->n_heads % c->n_kv_heads)
        return lm_wrong(s, "num_key_value_heads", "attention.head_count_kv", e,
                        "%u does not divide the number of query heads, %u", c->n_kv_heads, c->n_heads);
    LM_TRY(lm_read_head_dim(s, "num_attention_heads", c, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 4096,
                       &c->context_length, e));
    LM_TRY(lm_read_act(s, "mlp_hidden_act", LM_ACT_RELU2, c, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    c->norm_eps  = own->eps;
    c->attention = lm_plain_attention(c);
    /* q and k are stored as if they were rotated */
    c->rope.permuted      = gguf;
    c->rope.gguf_permutes = c->attention.gguf_permutes = true;
    if (has_kind(c, 'E'))
        LM_TRY(read_mixture(s, c, e));
    else
        c->route = (lm_route_spec){ 0 };
    if (!has_kind(c, 'M'))
        return LM_OK;
    k.groups    = named(s, k.groups, "mamba_n_groups");
    k.taps      = named(s, k.taps, "mamba_d_conv");
    k.conv_bias = named(s, k.conv_bias, "mamba_conv_bias");
    return lm_read_mamba2(s, &k, c, e);
}

/* Return whether a list or a pattern names experts. */
static bool has_experts(const lm_source *s)
{
    char     kinds[LM_MAX_LAYERS];
    uint32_t n;

    return read_kinds(s, &n, kinds, NULL) == LM_OK && memchr(kinds, 'E', n);
}

static const lm_name names[] = {
    { "backbone.embeddings", "token_embd" },
    { "backbone.layers.*.norm", "blk.*.attn_norm" },
    LM_MAMBA2_NAMES("backbone.layers.*.mixer"),
    { "backbone.layers.*.mixer.q_proj", "blk.*.attn_q" },
    { "backbone.layers.*.mixer.k_proj", "blk.*.attn_k" },
    { "backbone.layers.*.mixer.v_proj", "blk.*.attn_v" },
    { "backbone.layers.*.mixer.o_proj", "blk.*.attn_output" },
    { "backbone.layers.*.mixer.up_proj", "blk.*.ffn_up" },
    { "backbone.layers.*.mixer.down_proj", "blk.*.ffn_down" },
    { "backbone.layers.*.mixer.gate", "blk.*.ffn_gate_inp" },
    { "backbone.layers.*.mixer.gate.e_score_correction_bias", "blk.*.exp_probs_b" },
    { "backbone.layers.*.mixer.fc1_latent_proj", "blk.*.ffn_latent_down" },
    { "backbone.layers.*.mixer.fc2_latent_proj", "blk.*.ffn_latent_up" },
    { "backbone.layers.*.mixer.experts.up_proj", "blk.*.ffn_up_exps" },
    { "backbone.layers.*.mixer.experts.down_proj", "blk.*.ffn_down_exps" },
    { "backbone.layers.*.mixer.shared_experts.up_proj", "blk.*.ffn_up_shexp" },
    { "backbone.layers.*.mixer.shared_experts.down_proj", "blk.*.ffn_down_shexp" },
    { "backbone.norm_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

static const lm_default defaults[] = {
    { "intermediate_size", 21504 }, { "num_key_value_heads", 8 }, { "head_dim", 128 }, { "mamba_num_heads", 128 },
    { "mamba_head_dim", 64 }, { "ssm_state_size", 128 }, { "n_groups", 8 }, { NULL, 0 },
};

static const char *const keys[] = {
    "hybrid_override_pattern", "layers_block_type", "layer_norm_epsilon", "mlp_hidden_act", "mlp_bias",
    "attention_bias", "mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "use_conv_bias",
    "use_bias", "mamba_n_groups", "mamba_d_conv", "mamba_conv_bias", "time_step_limit", "chunk_size", "expand",
    "mamba_hidden_act", "mamba_proj_bias", "mamba_ssm_cache_dtype", "use_mamba_kernels", "residual_in_fp32",
    "rescale_prenorm_residual", "time_step_min", "time_step_max", "time_step_floor", "n_routed_experts",
    "num_experts_per_tok", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size",
    "moe_shared_expert_overlap", "n_shared_experts", "n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor",
    "num_nextn_predict_layers", "mtp_layers_block_type", "mtp_hybrid_override_pattern", "num_logits_to_keep",
    "hidden_dropout", "mamba_expand", "mamba_chunk_size", NULL,
};

static const char *const ignorable[] = { "*.rotary_emb.inv_freq", "mtp.*", NULL };

static const char *const gguf_unread[] = { "rope.dimension_count", "expert_shared_count", NULL };

static const lm_order orders[] = {
    { "Mamba2Mixer", "act conv1d in_proj norm out_proj *" },
    { "MoE", "experts gate shared_experts fc1_latent_proj fc2_latent_proj *" },
    { "Attention", "q_proj k_proj v_proj o_proj *" },
    { NULL, NULL },
};

#define COMMON                                                                                  \
    .class_prefix = "NemotronH", .mamba = &mamba_keys, .orders = orders, .configure = configure, \
    .build = build, .own = own_numbers, .names = names, .defaults = defaults, .keys = keys,      \
    .ignorable = ignorable, .gguf_unread = gguf_unread, .layers = "blk.", .pad_token = "0"

const lm_family lm_family_nemotron_h_moe = {
    COMMON,
    .name       = "nemotron_h",
    .hf_types   = (const char *const[]){ "nemotron_h", NULL },
    .gguf_archs = (const char *const[]){ "nemotron_h_moe", NULL },
    .suits      = has_experts,
};

const lm_family lm_family_nemotron_h = {
    COMMON,
    .name       = "nemotron_h",
    .hf_types   = (const char *const[]){ "nemotron_h", NULL },
    .gguf_archs = (const char *const[]){ "nemotron_h", NULL },
};
