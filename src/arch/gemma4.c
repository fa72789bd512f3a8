/* gemma4.c - Gemma 4, text (Google, 2026): Gemma 3's layer with plain norms, values normalised too, and wider
 * heads in layers without a window. The last layers may read the keys and values of earlier ones; every layer
 * may add a product with rows of a table of its own, and a mixture of experts beside its MLP. */
#include "arch/families.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

typedef struct gemma4 {
    uint32_t inputs;                 /* width of the inputs of each layer; 0: there are none */
    float    cap;                    /* of the logits; 0: none */
    bool     k_is_v;                 /* in layers without a window, values are the product of keys */
    bool     mixture;
} gemma4;
LM_OWN_FITS(gemma4);

/* What layers read of others. */
typedef struct layers {
    lm_value inputs;                 /* of all layers */
    lm_value last[2];                /* the last attention with its own keys: with a window, without */
} layers;

static lm_value mlp(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    uint32_t width = c->intermediate << (c->wide_readers && lm_gemma3n_reads_earlier(c, layer));

    lm_push(b, "mlp", "%sTextMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, width, false);
    lm_value up   = lm_linear(b, "up_proj", x, width, false);
    lm_value down = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return down;
}

/* The router reads x; the experts, x normalised. */
static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    const lm_expert_spec experts = {
        .n_experts = c->route.n_experts, .top_k = c->route.top_k, .width = c->expert_width, .act = c->act,
        .names = { "gate_proj", "up_proj", "down_proj" }, .joined = "experts.gate_up_proj", .alone = "experts.down_proj",
    };

    lm_push(b, "router", "%sTextRouter");
    lm_value r = lm_gemma3n_unweighted(b, c, "norm", x, 1);
    r          = lm_scale_by_weight(b, "scale", r, c->hidden);
    r = lm_linear(b, "proj", lm_scale(b, r, 1 / sqrtf((float)c->hidden)), c->route.n_experts, false);
    r = lm_route(b, r, &c->route, NULL);
    lm_scale_routes(b, r, "per_expert_scale");
    lm_pop(b);
    x          = lm_gemma3n_norm(b, c, "pre_feedforward_layernorm_2", x);
    lm_value y = lm_experts_of(b, "experts", x, r, &experts);
    lm_class_is(b, "%sTextExperts");
    return lm_gemma3n_norm(b, c, "post_feedforward_layernorm_2", y);
}

static lm_value feed_forward(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const gemma4 *own = lm_own(c);
    lm_value      h   = mlp(b, c, layer, lm_gemma3n_norm(b, c, "pre_feedforward_layernorm", x));

    if (own->mixture) {
        h = lm_gemma3n_norm(b, c, "post_feedforward_layernorm_1", h);
        h = lm_add(b, h, mixture(b, c, x));
    }
    return lm_add(b, x, lm_gemma3n_norm(b, c, "post_feedforward_layernorm", h));
}

static lm_value decoder_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x, layers *l)
{
    const gemma4 *own = lm_own(c);
    lm_value      h   = lm_gemma3n_norm(b, c, "input_layernorm", x);

    h = lm_gemma3n_attention(b, c, layer, &c->local.rope, own->k_is_v, h, l->last);
    x = lm_add(b, x, lm_gemma3n_norm(b, c, "post_attention_layernorm", h));
    x = feed_forward(b, c, layer, x);
    if (own->inputs) {
        h = lm_gemma3n_from_inputs(b, c, layer, own->inputs, x, l->inputs);
        x = lm_add(b, x, h);
    }
    x = lm_scale_by_weight(b, "layer_scalar", x, 1);
    return x;
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    const gemma4 *own = lm_own(c);
    layers        l   = { LM_NONE, { LM_NONE, LM_NONE } };

    lm_push(b, "model", "%sTextModel");
    lm_value x = lm_gemma_embed(b, c);
    if (own->inputs)
        l.inputs = lm_gemma3n_inputs(b, c, c->vocab_size, own->inputs, x);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sTextDecoderLayer");
        x = decoder_layer(b, c, i, x, &l);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_gemma3n_norm(b, c, "norm", x);
    lm_leaf(b, "rotary_emb", "%sTextRotaryEmbedding");
    lm_pop(b);
    x = lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
    return lm_capped(b, x, own->cap);
}

/* ---- metadata ---- */

enum { MAX_HEADS = 1024, MAX_HEAD_DIM = 1024, MAX_WIDTH = 1 << 19 };

static lm_status read_kinds(const lm_source *s, uint32_t window, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_window(s, window, c, e));
    LM_TRY(lm_read_window_pattern(s, NULL, 6, c, e));
    if (s->kind != LM_GGUF && !c->full[c->n_layers - 1]) {
        c->full[c->n_layers - 1] = true;
        lm_source_warn(s, "layer_types: the last layer is read as \"full_attention\", as transformers does");
    }
    return lm_gemma3n_readers(s, 0, c, e);
}

/* Read a number of the layers without a window from per_layer_config, as transformers 5.23 writes it, else
 * from a member of its own. */
static lm_status read_global(const lm_source *s, const char *member, const char *own, uint32_t max,
                             int64_t fallback, const lm_config *c, uint32_t *out, lm_error *e)
{
    bool any = false;

    if (!lm_meta_has(s->meta, "per_layer_config"))
        return lm_read_u32(s, own, NULL, 1, max, fallback, out, e);
    *out = (uint32_t)fallback;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        char     key[64];
        uint32_t n = c->full[i] ? (uint32_t)fallback : 0;
        snprintf(key, sizeof key, "per_layer_config/%u/%s", i, member);
        if (!lm_meta_has(s->meta, key))
            continue;
        LM_TRY(lm_meta_u32(s->meta, key, 1, max, &n, e));
        if (!c->full[i] || (any && n != *out))
            return lm_no_form(s, key, "only layers without a window may differ, all in the same way", e);
        *out = n;
        any  = true;
    }
    return LM_OK;
}

static lm_status read_heads(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma4  *own = lm_family_config_mut(c);
    uint32_t kv[2], v_dim, local_v_dim;

    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, MAX_HEADS, -1, &c->n_heads, e));
    LM_TRY(lm_read_by_kind(s, "num_key_value_heads", "attention.head_count_kv", MAX_HEADS, c->full, c, kv,
                           e));
    LM_TRY(lm_read_u32(s, "head_dim", "attention.key_length_swa", 1, MAX_HEAD_DIM, 256, &c->local.head_dim,
                       e));
    if (s->kind == LM_GGUF) {
        LM_TRY(lm_read_u32(s, "global_head_dim", "attention.key_length", 1, MAX_HEAD_DIM, 512, &c->head_dim,
                           e));
    } else {
        LM_TRY(lm_read_bool(s, "attention_k_eq_v", NULL, false, &own->k_is_v, e));
        bool listed = lm_meta_has(s->meta, "per_layer_config");
        LM_TRY(read_global(s, "head_dim", "global_head_dim", MAX_HEAD_DIM,
                           listed ? c->local.head_dim : 512, c, &c->head_dim, e));
        if (listed || own->k_is_v)
            LM_TRY(read_global(s, "num_key_value_heads", "num_global_key_value_heads", MAX_HEADS, kv[1], c,
                               &kv[1], e));
    }
    c->local.n_heads    = c->n_heads;
    c->local.n_kv_heads = kv[0];
    c->local.v_dim      = c->local.head_dim;
    c->n_kv_heads       = kv[1];
    LM_TRY(lm_read_u32(s, NULL, "attention.value_length", 1, MAX_HEAD_DIM, c->head_dim, &v_dim, e));
    LM_TRY(lm_read_u32(s, NULL, "attention.value_length_swa", 1, MAX_HEAD_DIM, c->local.head_dim,
                       &local_v_dim, e));
    bool wide = v_dim != c->head_dim;
    if (wide || local_v_dim != c->local.head_dim)
        return lm_wrong(s, NULL, wide ? "attention.value_length" : "attention.value_length_swa", e,
                        "values have %u dimensions and keys %u; the same number is expected",
                        wide ? v_dim : local_v_dim, wide ? c->head_dim : c->local.head_dim);
    if (c->n_heads % kv[0] || c->n_heads % kv[1])
        return lm_wrong(s, "num_key_value_heads", "attention.head_count_kv", e,
                        "%u does not divide the number of query heads, %u",
                        c->n_heads % kv[0] ? kv[0] : kv[1], c->n_heads);
    for (uint32_t i = 0; s->kind == LM_GGUF && s->tensors && i < c->n_layers - c->n_readers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.attn_v.weight", i);
        own->k_is_v |= c->full[i] && !lm_has_tensor(s, name);
    }
    return LM_OK;
}

/* Without rope_parameters, transformers' class has two rotations of its own. */
static lm_status read_rotations(const lm_source *s, lm_config *c, lm_error *e)
{
    double   base;
    bool     given = lm_meta_has(s->meta, "rope_parameters");
    uint32_t lanes;

    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "rope_scaling"))
        return lm_no_form(s, "rope_scaling", "one rotation for all layers is not supported in this family; "
                                             "rope_parameters is expected", e);
    if (s->kind == LM_GGUF) {
        float swa;
        LM_TRY(lm_read_f32(s, NULL, "rope.freq_base_swa", 1e-3, 1e30, 10000, &swa, e));
        base = (double)swa;
    } else {
        base = 10000;
    }
    LM_TRY(lm_read_two_ropes(s, c->head_dim, 1e6, base, c, &c->local.rope, e));
    LM_TRY(lm_read_u32(s, NULL, "rope.dimension_count_swa", 1, MAX_HEAD_DIM, c->local.head_dim, &lanes, e));
    if (lanes != c->local.head_dim || lanes % 2)
        return lm_wrong(s, "head_dim", "rope.dimension_count_swa", e,
                        "%u dimensions rotate; the width of a head, %u, is expected, and an even one", lanes,
                        c->local.head_dim);
    c->local.rope.dim = lanes;
    c->rope.pairing = c->local.rope.pairing = LM_ROPE_HALF;
    if (s->kind == LM_GGUF || given)
        return LM_OK;
    c->rope.base = s->rope_freq_base > 0 ? s->rope_freq_base : 1e6;
    if (!s->rope_scaling && c->rope.type == LM_ROPE_DEFAULT) {
        c->rope.type  = LM_ROPE_PROPORTIONAL;
        c->rope.share = 0.25;
    }
    return LM_OK;
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma4        *own = lm_family_config_mut(c);
    lm_route_spec *r   = &c->route;

    if (s->kind != LM_GGUF)
        LM_TRY(lm_read_bool(s, "enable_moe_block", NULL, false, &own->mixture, e));
    else
        LM_TRY(lm_read_u32(s, NULL, "expert_count", 0, LM_MAX_EXPERTS, 0, &r->n_experts, e));
    if (s->kind == LM_GGUF ? !r->n_experts : !own->mixture)
        return LM_OK;
    own->mixture = true;
    *r           = (lm_route_spec){ .renormalise = true, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &r->n_experts, e));
    LM_TRY(lm_read_u32(s, "top_k_experts", "expert_used_count", 1, r->n_experts, -1, &r->top_k, e));
    return lm_read_u32(s, "moe_intermediate_size", "expert_feed_forward_length", 1, MAX_WIDTH, -1,
                       &c->expert_width, e);
}

static lm_status read_widths(const lm_source *s, lm_config *c, lm_error *e)
{
    bool     reads[LM_MAX_LAYERS];
    uint32_t width[2];

    for (uint32_t i = 0; i < c->n_layers; i++)
        reads[i] = lm_gemma3n_reads_earlier(c, i);
    LM_TRY(lm_read_by_kind(s, "intermediate_size", "feed_forward_length", MAX_WIDTH, reads, c, width, e));
    if (s->kind != LM_GGUF)
        LM_TRY(lm_read_bool(s, "use_double_wide_mlp", NULL, false, &c->wide_readers, e));
    c->intermediate = width[0];
    if (width[1] == width[0])
        return LM_OK;
    c->wide_readers = true;
    return width[1] == 2 * width[0] ? LM_OK
                                    : lm_wrong(s, NULL, "feed_forward_length", e,
                                               "%u in layers with their own keys, %u in the others; the same "
                                               "or twice as many are expected",
                                               width[0], width[1]);
}

/* Read the width of the inputs of each layer. `fallback`: of config.json. */
static lm_status read_inputs(const lm_source *s, uint32_t fallback, lm_config *c, lm_error *e)
{
    gemma4 *own = lm_family_config_mut(c);
    lm_meta_value v;
    uint32_t rows;
    bool null = s->kind != LM_GGUF && lm_meta_get(s->meta, "hidden_size_per_layer_input", &v) &&
                v.kind == LM_META_NULL;

    LM_TRY(lm_read_u32(s, "hidden_size_per_layer_input", "embedding_length_per_layer_input", 0, 65536,
                       null || s->kind == LM_GGUF ? 0 : fallback, &own->inputs, e));
    if ((uint64_t)own->inputs * c->n_layers > MAX_WIDTH * 2)
        return lm_wrong(s, "hidden_size_per_layer_input", "embedding_length_per_layer_input", e,
                        "%u times %u layers are beyond %d", own->inputs, c->n_layers, MAX_WIDTH * 2);
    if (s->kind == LM_GGUF || !own->inputs)
        return LM_OK;
    LM_TRY(lm_read_u32(s, "vocab_size_per_layer_input", NULL, 1, UINT32_MAX, 262144, &rows, e));
    return rows == c->vocab_size ? LM_OK
                                 : lm_wrong(s, "vocab_size_per_layer_input", NULL, e,
                                            "%u; vocab_size, %u, is expected", rows, c->vocab_size);
}

/* Text is causal whatever images are. */
static lm_status check_direction(const lm_source *s, lm_error *e)
{
    lm_view word;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "use_bidirectional_attention"))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, "use_bidirectional_attention", &word, e));
    return lm_view_is(word, "vision") ? LM_OK
                                      : lm_no_form(s, "use_bidirectional_attention",
                                                   "attention in both directions has no form here", e);
}

/* Where transformers' classes differ. */
typedef struct fallbacks {
    uint32_t window, inputs, context;
} fallbacks;

static lm_status configure_as(const lm_source *s, fallbacks f, lm_config *c, lm_error *e)
{
    gemma4 *own = lm_family_config_mut(c);

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1 << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_layers(s, c, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, f.context,
                       &c->context_length, e));
    LM_TRY(lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e));
    LM_TRY(read_kinds(s, f.window, c, e));
    LM_TRY(read_heads(s, c, e));
    LM_TRY(read_widths(s, c, e));
    LM_TRY(read_inputs(s, f.inputs, c, e));
    LM_TRY(read_mixture(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_activation", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(check_direction(s, e));
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", "final_logit_softcapping", 0, &own->cap, e));
    LM_TRY(read_rotations(s, c, e));
    uint32_t window = c->attention.window;
    c->attention = lm_plain_attention(c);
    c->attention.scale = 1;
    c->attention.window = window;
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    return configure_as(s, (fallbacks){ 512, 256, 131072 }, c, e);
}

/* The text model of `gemma4_unified` has neither inputs of each layer nor a mixture. */
static lm_status configure_unified(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma4 *own = lm_family_config_mut(c);

    LM_TRY(configure_as(s, (fallbacks){ 1024, 0, 262144 }, c, e));
    if (own->inputs || own->mixture)
        return lm_no_form(s, own->inputs ? "hidden_size_per_layer_input" : "enable_moe_block",
                          "models of this type have none", e);
    return LM_OK;
}

static const lm_name names[] = {
    LM_GEMMA2_NAMES,
    { "model.layers.*.layer_scalar", "blk.*.layer_output_scale.weight" },
    { "model.embed_tokens_per_layer", "per_layer_token_embd" },
    { "model.per_layer_model_projection", "per_layer_model_proj" },
    { "model.per_layer_projection_norm", "per_layer_proj_norm" },
    { "model.layers.*.per_layer_input_gate", "blk.*.inp_gate" },
    { "model.layers.*.per_layer_projection", "blk.*.proj" },
    { "model.layers.*.post_per_layer_input_norm", "blk.*.post_norm" },
    { "model.layers.*.router.scale", "blk.*.ffn_gate_inp.scale" },
    { "model.layers.*.router.proj", "blk.*.ffn_gate_inp" },
    { "model.layers.*.router.per_expert_scale", "blk.*.ffn_down_exps.scale" },
    { "model.layers.*.experts.gate_up_proj", "blk.*.ffn_gate_up_exps" },
    { "model.layers.*.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.pre_feedforward_layernorm_2", "blk.*.pre_ffw_norm_2" },
    { "model.layers.*.post_feedforward_layernorm_1", "blk.*.post_ffw_norm_1" },
    { "model.layers.*.post_feedforward_layernorm_2", "blk.*.post_ffw_norm_2" },
    { NULL, NULL },
};

static const lm_order orders[] = {
    { "TextModel", "embed_tokens layers norm rotary_emb *" },
    { "Attention", "q_proj q_norm k_norm v_norm k_proj v_proj o_proj *" },
    { "TextDecoderLayer", "self_attn mlp input_layernorm post_attention_layernorm pre_feedforward_layernorm "
                          "post_feedforward_layernorm act_fn per_layer_input_gate per_layer_projection "
                          "post_per_layer_input_norm router experts post_feedforward_layernorm_1 "
                          "post_feedforward_layernorm_2 pre_feedforward_layernorm_2 *" },
    { NULL, NULL },
};

static const lm_own_number own_numbers[] = {
    { "hidden_size_per_layer_input", "embedding_length_per_layer_input", LM_OWN_U32, offsetof(gemma4, inputs), 0, 65536, 256, true },
    { 0 },
};

static const char *const keys[] = {
    "hidden_activation", "attention_bias", "sliding_window", "layer_types", "final_logit_softcapping",
    "use_bidirectional_attention", "global_head_dim", "num_global_key_value_heads", "per_layer_config",
    "attention_k_eq_v", "num_kv_shared_layers", "use_double_wide_mlp", "hidden_size_per_layer_input",
    "vocab_size_per_layer_input", "enable_moe_block", "num_experts", "top_k_experts",
    "moe_intermediate_size", NULL,
};

const lm_family lm_family_gemma4 = {
    .name         = "gemma4",
    .class_prefix = "Gemma4",
    .hf_types     = (const char *const[]){ "gemma4_text", NULL },
    .gguf_archs   = (const char *const[]){ "gemma4", NULL },
    .pad_token    = "0",
    .orders       = orders,
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
    .fixed_scale  = true,
    .gguf_renormalises = true,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "sliding_window", 512 }, { "max_position_embeddings", 131072 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = keys,
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_gemma4_unified = {
    .name         = "gemma4_unified",
    .class_prefix = "Gemma4Unified",
    .hf_types     = (const char *const[]){ "gemma4_unified_text", NULL },
    .gguf_as      = "gemma4",
    .pad_token    = "0",
    .orders       = orders,
    .configure    = configure_unified,
    .build        = build,
    .names        = names,
    .fixed_scale  = true,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 },
                                          { "sliding_window", 1024 }, { "max_position_embeddings", 262144 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = keys,
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
