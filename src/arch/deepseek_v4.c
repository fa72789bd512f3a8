/* deepseek_v4.c - DeepSeek-V4 (DeepSeek, 2026): residual streams with hyper-connections (arXiv 2512.24880);
 * one head of keys that are the values, too, with a window, sinks and a rotation that is undone behind
 * attention; products of groups of heads; mixtures whose first layers list the experts of each token. */
#include <inttypes.h>
#include <math.h>

#include "arch/deepseek_v4.h"

/* ---- hyper-connections ---- */

static lm_value norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    return lm_rms_norm(b, name, x, c->norm_eps);
}

static lm_value unweighted(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n_heads)
{
    lm_value y = lm_rms_unweighted(b, name, "%sUnweightedRMSNorm", x, n_heads, c->norm_eps);

    lm_module_arguments(b, "=");
    return y;
}

/* Return the numbers of all connections of a branch. */
static lm_value connections(lm_builder *b, const lm_config *c, lm_value x, bool ends)
{
    static const char *const names[2][3] = { { "fn", "base", "scale" }, { "hc_fn", "hc_base", "hc_scale" } };
    const lm_deepseek_v4    *own  = lm_own(c);
    lm_connect_spec          spec = { own->streams, ends ? 0 : own->rounds, own->eps, ends };

    lm_value k = unweighted(b, c, "input_norm", x, 1);
    k          = lm_linear_of(b, names[ends][0], k, own->streams * (ends ? 1 : own->streams + 2));
    return lm_connections(b, "connections", k, names[ends] + 1, &spec);
}

/* Read the input of a branch from the streams, and set how its output is merged with them. */
static lm_value open_branch(lm_builder *b, const lm_config *c, const char *name, lm_value x, lm_value *k)
{
    lm_push(b, name, "%sHyperConnection");
    *k         = connections(b, c, x, false);
    lm_value y = lm_blend_streams(b, "blended", x, *k, ((const lm_deepseek_v4 *)lm_own(c))->streams);
    lm_pop(b);
    return y;
}

/* ---- attention ---- */

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lm_deepseek_v4 *own  = lm_own(c);
    lm_attention_spec     spec = lm_layer_attention(c, layer);
    lm_rope_spec          rope = own->kind[layer] == LM_V4_WINDOW ? c->rope : c->compress, back;

    lm_push(b, "self_attn", "%sAttention");
    lm_value latent = norm(b, c, "q_a_norm", lm_linear(b, "q_a_proj", x, c->latent.q_rank, false));
    lm_value q      = lm_linear(b, "q_b_proj", latent, c->n_heads * c->head_dim, false);
    q               = lm_rope(b, unweighted(b, c, "q_b_norm", q, c->n_heads), c->n_heads, &rope);
    lm_value k      = norm(b, c, "kv_norm", lm_linear(b, "kv_proj", x, c->head_dim, false));
    lm_value y      = lm_deepseek_v4_scores(b, c, layer, x, latent, q, lm_rope(b, k, 1, &rope), &spec);
    back            = rope;
    back.backwards  = true;
    y               = lm_rope(b, y, c->n_heads, &back);
    y = lm_grouped_linear(b, "o_a_proj", "%sGroupedLinear", y, own->o_groups, own->o_rank);
    y = lm_linear(b, "o_b_proj", y, c->hidden, false);
    lm_pop(b);
    return y;
}

/* ---- mixtures ---- */

static lm_value routes(lm_builder *b, const lm_config *c, bool listed, lm_value x)
{
    lm_push(b, "gate", listed ? "%sHashRouter" : "%sTopKRouter");
    lm_value y = lm_linear_of(b, "weight", x, c->route.n_experts);
    lm_leaf(b, "score_fn", "SqrtSoftplusActivation");
    y = lm_route(b, y, &c->route, listed ? NULL : "e_score_correction_bias");
    if (listed)
        lm_route_by_token(b, y, "tid2eid", c->vocab_size);
    lm_pop(b);
    return y;
}

static lm_value mixture(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lm_deepseek_v4 *own  = lm_own(c);
    lm_expert_spec        spec = { .n_experts = c->route.n_experts, .top_k = c->route.top_k,
                                   .width = c->expert_width, .act = c->act, .limit = c->gate_limit,
                                   .names = { "w1", "w3", "w2" } };

    lm_push(b, "mlp", "%sSparseMoeBlock");
    lm_value route = routes(b, c, own->hash[layer], x);
    lm_value y     = lm_experts_of(b, "experts", x, route, &spec);
    y              = lm_add(b, y, lm_gated_mlp(b, c, "shared_experts", x, c->shared_width));
    lm_pop(b);
    return y;
}

/* ---- the model ---- */

static lm_value decoder_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    uint32_t n = ((const lm_deepseek_v4 *)lm_own(c))->streams;
    lm_value k, y;

    y = norm(b, c, "input_layernorm", open_branch(b, c, "attn_hc", x, &k));
    x = lm_merge_streams(b, "after_attention", x, attention(b, c, layer, y), k, n);
    y = norm(b, c, "post_attention_layernorm", open_branch(b, c, "ffn_hc", x, &k));
    return lm_merge_streams(b, "after_mlp", x, mixture(b, c, layer, y), k, n);
}

static lm_value one_stream(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "hc_head", "%sHyperHead");
    lm_value k = connections(b, c, x, true);
    x          = lm_blend_streams(b, "blended", x, k, ((const lm_deepseek_v4 *)lm_own(c))->streams);
    lm_pop(b);
    return x;
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "model", "%sModel");
    lm_value x = lm_llama_embed(b, c);
    x          = lm_repeat_stream(b, "streams", x, ((const lm_deepseek_v4 *)lm_own(c))->streams);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = decoder_layer(b, c, i, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = norm(b, c, "norm", one_stream(b, c, x));
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
}

/* ---- metadata ---- */

#define RATES "compress_rates/"
#define OWN(member) offsetof(lm_deepseek_v4, member)

static const lm_own_number numbers[] = {
    { "hc_mult", "hyper_connection.count", LM_OWN_U32, OWN(streams), 1, LM_MAX_CONNECTED, 4, true },
    { "hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations", LM_OWN_U32, OWN(rounds), 1, LM_MAX_ROUNDS,
      20, true },
    { "hc_eps", "hyper_connection.epsilon", LM_OWN_F32, OWN(eps), 1e-20, 1, 1e-6, true },
    { "o_groups", "attention.output_group_count", LM_OWN_U32, OWN(o_groups), 1, LM_MAX_HEADS, 8, true },
    { "o_lora_rank", "attention.output_lora_rank", LM_OWN_U32, OWN(o_rank), 1, 1u << 16, 1024, true },
    { NULL, "embedding_length_out", LM_OWN_U32, OWN(wide), 1, UINT32_MAX, 0, true },
    { "swiglu_limit", NULL, LM_OWN_F32, OWN(limit), 1e-6, 1e9, 10, false },
    { "num_hash_layers", "hash_layer_count", LM_OWN_U32, OWN(hash_layers), 0, LM_MAX_LAYERS, 3, true },
    /* of layers with compressed keys */
    { "index_n_heads", "attention.indexer.head_count", LM_OWN_U32, OWN(index_heads), 1, LM_MAX_HEADS, 64,
      true },
    { "index_head_dim", "attention.indexer.key_length", LM_OWN_U32, OWN(index_dim), 2, 1024, 128, true },
    { "index_topk", "attention.indexer.top_k", LM_OWN_U32, OWN(index_top), 1, 1u << 20, 512, true },
    { RATES "compressed_sparse_attention", NULL, LM_OWN_U32, OWN(rates[0]), 1, LM_V4_MAX_RATE, 4, true },
    { RATES "heavily_compressed_attention", NULL, LM_OWN_U32, OWN(rates[1]), 1, LM_V4_MAX_RATE, 128, true },
    { "compress_rope_theta", "attention.compress_rope_freq_base", LM_OWN_F64, OWN(compress_base), 1e-3, 1e30,
      160000, true },
    { 0 },
};

enum { ALWAYS = 8 };                     /* numbers that count without compressed keys */

static const lm_mixture_keys mixture_keys = { .experts = "n_routed_experts", .top_k = "num_experts_per_tok",
                                              .shared = "n_shared_experts", .scale = "routed_scaling_factor",
                                              .normalised = "norm_topk_prob", .normalises = true };

static lm_status read_sizes(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t values;

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, LM_MAX_WIDTH, -1, &c->hidden, e));
    LM_TRY(lm_read_layers(s, c, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, LM_MAX_HEADS, -1, &c->n_heads,
                       e));
    LM_TRY(lm_read_u32(s, "num_key_value_heads", "attention.head_count_kv", 1, 1, 1, &c->n_kv_heads, e));
    LM_TRY(lm_read_u32(s, "head_dim", "attention.key_length", 1, 1024, 512, &c->head_dim, e));
    LM_TRY(lm_read_u32(s, NULL, "attention.value_length", 1, 1024, c->head_dim, &values, e));
    if (values != c->head_dim)
        return lm_wrong(s, NULL, "attention.value_length", e, "%u, but the values are the keys, %u wide",
                        values, c->head_dim);
    LM_TRY(lm_read_u32(s, "q_lora_rank", "attention.q_lora_rank", 1, 1u << 18, 1024, &c->latent.q_rank, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 1048576,
                       &c->context_length, e));
    LM_TRY(lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    return lm_read_u32(s, "sliding_window", "attention.sliding_window", 1, UINT32_MAX, 128,
                       &c->attention.window, e);
}

/* Read the family's own numbers: those of compressed keys only if some layer has them. */
static lm_status read_numbers(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_deepseek_v4 *own        = lm_family_config_mut(c);
    bool            compressed = false;

    for (uint32_t i = 0; i < c->n_layers; i++)
        compressed |= own->kind[i] != LM_V4_WINDOW;
    own->index_heads   = 64;
    own->index_dim     = 128;
    own->index_top     = 512;
    own->rates[0]      = 4;
    own->rates[1]      = 128;
    own->compress_base = 160000;
    for (size_t i = 0; numbers[i].hf || numbers[i].gguf; i++) {
        const lm_own_number row[2] = { numbers[i], { 0 } };
        if (i < ALWAYS || compressed || s->kind != LM_GGUF)
            LM_TRY(lm_read_own(s, row, c, e));
    }
    return LM_OK;
}

static lm_status read_connections(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_deepseek_v4 *own = lm_family_config_mut(c);

    LM_TRY(read_numbers(s, c, e));
    if (own->wide && own->wide != own->streams * c->hidden)
        return lm_wrong(s, NULL, "embedding_length_out", e, "%u; %u streams of %u are expected", own->wide,
                        own->streams, c->hidden);
    own->wide = own->streams * c->hidden;
    if ((uint64_t)own->streams * c->hidden > LM_MAX_WIDTH)
        return lm_wrong(s, "hc_mult", "hyper_connection.count", e, "%u streams of %u are beyond %u",
                        own->streams, c->hidden, LM_MAX_WIDTH);
    if ((uint64_t)c->n_heads * c->head_dim % own->o_groups)
        return lm_wrong(s, "o_groups", "attention.output_group_count", e,
                        "%u does not divide the width of all heads, %u", own->o_groups,
                        c->n_heads * c->head_dim);
    if ((uint64_t)own->o_groups * own->o_rank > LM_MAX_WIDTH)
        return lm_wrong(s, "o_lora_rank", "attention.output_lora_rank", e, "%u of %u groups is beyond %u",
                        own->o_rank, own->o_groups, LM_MAX_WIDTH);
    return LM_OK;
}

/* ---- kinds of layers ---- */

/* Read the kinds of attention as older files have them: the tokens of a compressed entry, 0 for none. Lists
 * may go on for layers that predict further tokens. */
static lm_status read_ratios(const lm_source *s, const lm_meta_value *list, lm_config *c, lm_error *e)
{
    lm_deepseek_v4 *own = lm_family_config_mut(c);
    lm_meta_value   item;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        uint64_t ratio = list->kind == LM_META_ARRAY && lm_meta_at(list, i, &item) &&
                                 item.kind == LM_META_UINT
                             ? item.u
                             : UINT64_MAX;
        if (ratio != 0 && ratio != 4 && ratio != 128)
            return lm_wrong(s, "compress_ratios", "attention.compress_ratios", e,
                            "does not have a 0, 4 or 128 for each of %u layers", c->n_layers);
        own->kind[i] = ratio == 0 ? LM_V4_WINDOW : ratio == 4 ? LM_V4_SPARSE : LM_V4_HEAVY;
    }
    if (s->kind == LM_GGUF && list->a.n > c->n_layers + c->n_further)
        lm_source_warn(s,
                       "attention.compress_ratios has %" PRIu64 " entries for %u layers: the last have no "
                       "effect",
                       list->a.n, c->n_layers);
    return LM_OK;
}

static lm_status read_attention_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const words[3] = { "sliding_attention", "compressed_sparse_attention",
                                          "heavily_compressed_attention" };
    lm_deepseek_v4          *own = lm_family_config_mut(c);
    lm_meta_value            list;
    char                     key[128];

    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "layer_types"))
        return lm_read_layer_words(s, "layer_types", words, own->kind, c, e);
    const char *name = s->kind == LM_GGUF ? lm_gguf_key(s, "attention.compress_ratios", key, sizeof key)
                                          : "compress_ratios";
    if (lm_meta_get(s->meta, name, &list) && list.kind != LM_META_NULL)
        return read_ratios(s, &list, c, e);
    if (s->kind == LM_GGUF)
        return lm_wrong(s, NULL, "attention.compress_ratios", e, "missing");
    for (uint32_t i = 0; i < c->n_layers; i++)
        own->kind[i] = i >= 2 && i % 2 ? LM_V4_SPARSE : LM_V4_HEAVY;
    return LM_OK;
}

/* Read which layers list the experts of each token. */
static lm_status read_mlp_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_deepseek_v4 *own = lm_family_config_mut(c);

    for (uint32_t i = 0; i < c->n_layers; i++)
        own->hash[i] = i < own->hash_layers;
    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "mlp_layer_types"))
        LM_TRY(lm_read_layer_kinds(s, "mlp_layer_types", "hash_moe", "moe", own->hash, c, e));
    own->hash_layers = lm_leading(own->hash, c);
    return LM_OK;
}

/* ---- rotations ---- */

/* Read the number of rotated lanes, which both rotations share. */
static lm_status read_lanes(const lm_source *s, const lm_config *c, uint32_t *out, lm_error *e)
{
    static const char *const keys[] = { "rope_parameters/main/partial_rotary_factor",
                                        "rope_parameters/compress/partial_rotary_factor",
                                        "partial_rotary_factor" };
    uint32_t lanes[3];
    double   share;

    if (s->kind == LM_GGUF)
        return lm_read_u32(s, NULL, "rope.dimension_count", 2, c->head_dim, -1, out, e);
    for (int i = 2; i >= 0; i--) {
        lm_meta_value v;
        bool          given = lm_meta_get(s->meta, keys[i], &v) && v.kind != LM_META_NULL;
        if (given)
            LM_TRY(lm_meta_f64(s->meta, keys[i], 1e-6, 1, &share, e));
        if (i == 2 && !given)
            LM_TRY(lm_read_u32(s, "qk_rope_head_dim", NULL, 1, c->head_dim, c->head_dim / 8, &lanes[2], e));
        else
            lanes[i] = given ? (uint32_t)(c->head_dim * share) : lanes[2];
    }
    if (lanes[0] != lanes[1])
        return lm_no_form(s, keys[1], "differs from that of the other layers, which has no form here", e);
    *out = lanes[0];
    return *out && *out % 2 == 0 ? LM_OK
                                 : lm_wrong(s, "qk_rope_head_dim", NULL, e,
                                            "%u dimensions rotate; an even number is expected", *out);
}

static lm_status read_rotations(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_deepseek_v4 *own = lm_family_config_mut(c);
    uint32_t        lanes;

    LM_TRY(read_lanes(s, c, &lanes, e));
    LM_TRY(lm_read_main_and_compress(s, lanes, own->compress_base, c, &c->compress, e));
    own->compress_base = c->compress.base;
    c->rope.pairing    = c->compress.pairing = LM_ROPE_PAIR;
    c->rope.last       = c->compress.last    = true;
    return LM_OK;
}

/* ---- mixtures ---- */

/* Read the limit of gates, which GGUF lists for the experts and the shared expert of every layer. */
static lm_status read_limit(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const names[] = { "swiglu_clamp_exp", "swiglu_clamp_shexp" };
    lm_deepseek_v4          *own = lm_family_config_mut(c);
    lm_meta_value            list, item;
    char                     key[128];

    for (int k = 0; s->kind == LM_GGUF && k < 2; k++) {
        bool has = lm_meta_get(s->meta, lm_gguf_key(s, names[k], key, sizeof key), &list);
        if (!has && k == 1)              /* as that of the experts */
            return LM_OK;
        for (uint32_t i = 0; i < c->n_layers; i++) {
            if (!has || list.kind != LM_META_ARRAY || list.a.n != c->n_layers + c->n_further ||
                !lm_meta_at(&list, i, &item) ||
                item.kind != LM_META_FLOAT || !(item.f >= 1e-6 && item.f <= 1e9))
                return lm_wrong(s, NULL, names[k], e, "does not have a limit for each of %u layers",
                                c->n_layers);
            own->limit = k || i ? own->limit : (float)item.f;
            if ((float)item.f != own->limit)
                return lm_no_form(s, key, "has different limits, which have no form here", e);
        }
    }
    return LM_OK;
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t scoring;

    LM_TRY(lm_read_shared_mixture(s, &mixture_keys, c, e));
    if (c->shared_width != c->expert_width)
        return lm_wrong(s, "n_shared_experts", "expert_shared_count", e, "%u; one shared expert is expected",
                        c->shared_width / c->expert_width);
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 4, 4, 4, &scoring, e));
    LM_TRY(lm_expect_word(s, "scoring_func", "sqrtsoftplus", e));
    LM_TRY(lm_expect_word(s, "topk_method", "noaux_tc", e));
    LM_TRY(lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", true, &c->route.renormalise, e));
    if (!c->route.renormalise)
        return lm_wrong(s, "norm_topk_prob", "expert_weights_norm", e,
                        "weights that are not divided by their sum have no form here");
    c->route.root_softplus = true;
    c->intermediate        = c->expert_width;
    LM_TRY(read_limit(s, c, e));
    c->gate_limit = ((const lm_deepseek_v4 *)lm_own(c))->limit;
    return LM_OK;
}

/* Read how many positions an entry is of as older files have it, which counts before the newer form. */
static lm_status read_rates(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const keys[2] = { "compress_rate_csa", "compress_rate_hca" };
    lm_deepseek_v4          *own     = lm_family_config_mut(c);
    bool                     chooses = false;

    for (int i = 0; i < 2; i++)
        if (s->kind != LM_GGUF)
            LM_TRY(lm_read_u32(s, keys[i], NULL, 1, LM_V4_MAX_RATE, own->rates[i], &own->rates[i], e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        chooses |= own->kind[i] == LM_V4_SPARSE;
    if (!chooses || own->index_dim >= c->compress.dim)
        return LM_OK;
    return lm_wrong(s, "index_head_dim", "attention.indexer.key_length", e,
                    "%u is narrower than the %u lanes that rotate", own->index_dim, c->compress.dim);
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t window;

    LM_TRY(read_sizes(s, c, e));
    LM_TRY(read_attention_kinds(s, c, e));
    LM_TRY(read_connections(s, c, e));
    LM_TRY(read_mlp_kinds(s, c, e));
    LM_TRY(read_rotations(s, c, e));
    LM_TRY(read_rates(s, c, e));
    LM_TRY(read_mixture(s, c, e));
    LM_TRY(lm_expect_bool(s, "attention_bias", false, e));
    LM_TRY(lm_expect_bool(s, "mlp_bias", false, e));
    window       = s->sliding_window ? s->sliding_window > 0 ? (uint32_t)s->sliding_window : 0
                                     : c->attention.window;
    c->attention = (lm_attention_spec){ .n_heads = c->n_heads, .n_kv_heads = 1, .k_dim = c->head_dim,
                                        .v_dim = c->head_dim, .v_in_k = true, .window = window, .sinks = true,
                                        .scale = 1 / sqrtf((float)c->head_dim) };
    return LM_OK;
}

/* ---- lists ---- */

static double kind_of(const lm_config *c, uint32_t layer)
{
    return ((const lm_deepseek_v4 *)lm_own(c))->kind[layer];
}

static double ratio_of(const lm_config *c, uint32_t layer)
{
    static const double ratios[] = { [LM_V4_WINDOW] = 0, [LM_V4_SPARSE] = 4, [LM_V4_HEAVY] = 128 };

    return ratios[((const lm_deepseek_v4 *)lm_own(c))->kind[layer]];
}

static double lists_experts(const lm_config *c, uint32_t layer)
{
    return ((const lm_deepseek_v4 *)lm_own(c))->hash[layer];
}

static double limit_of(const lm_config *c, uint32_t layer)
{
    (void)layer;
    return (double)c->gate_limit;
}

static const char *const attention_words[] = { "sliding_attention", "compressed_sparse_attention",
                                               "heavily_compressed_attention" };
static const char *const mlp_words[]       = { "moe", "hash_moe" };
static const lm_layer_list lists[] = {
    { "layer_types", NULL, attention_words, kind_of, false },
    { "mlp_layer_types", NULL, mlp_words, lists_experts, false },
    { NULL, "attention.compress_ratios", NULL, ratio_of, true },
    { NULL, "swiglu_clamp_exp", NULL, limit_of, false },
    { NULL, "swiglu_clamp_shexp", NULL, limit_of, false },
    { 0 },
};

#define LAYER "model.layers.*."
#define MLP   LAYER "mlp."
#define COMPRESSOR LAYER "self_attn.compressor."
#define INDEXER COMPRESSOR "indexer."
static const lm_name names[] = {
    { "model.embed_tokens", "token_embd" },
    { LAYER "attn_hc.fn", "blk.*.hc_attn_fn.weight" },
    { LAYER "attn_hc.base", "blk.*.hc_attn_base.weight" },
    { LAYER "attn_hc.scale", "blk.*.hc_attn_scale.weight" },
    { LAYER "input_layernorm", "blk.*.attn_norm" },
    { LAYER "self_attn.q_a_proj", "blk.*.attn_q_a" },
    { LAYER "self_attn.q_a_norm", "blk.*.attn_q_a_norm" },
    { LAYER "self_attn.q_b_proj", "blk.*.attn_q_b" },
    { LAYER "self_attn.kv_proj", "blk.*.attn_kv" },
    { LAYER "self_attn.kv_norm", "blk.*.attn_kv_a_norm" },
    { LAYER "self_attn.sinks", "blk.*.attn_sinks" },
    { COMPRESSOR "kv_proj", "blk.*.attn_compressor_kv" },
    { COMPRESSOR "gate_proj", "blk.*.attn_compressor_gate" },
    { COMPRESSOR "position_bias", "blk.*.attn_compressor_ape" },
    { COMPRESSOR "kv_norm", "blk.*.attn_compressor_norm" },
    { INDEXER "kv_proj", "blk.*.indexer_compressor_kv" },
    { INDEXER "gate_proj", "blk.*.indexer_compressor_gate" },
    { INDEXER "position_bias", "blk.*.indexer_compressor_ape" },
    { INDEXER "kv_norm", "blk.*.indexer_compressor_norm" },
    { INDEXER "q_b_proj", "blk.*.indexer.attn_q_b" },
    { INDEXER "scorer.weights_proj", "blk.*.indexer.proj" },
    { LAYER "self_attn.o_a_proj", "blk.*.attn_output_a" },
    { LAYER "self_attn.o_b_proj", "blk.*.attn_output_b" },
    { LAYER "ffn_hc.fn", "blk.*.hc_ffn_fn.weight" },
    { LAYER "ffn_hc.base", "blk.*.hc_ffn_base.weight" },
    { LAYER "ffn_hc.scale", "blk.*.hc_ffn_scale.weight" },
    { LAYER "post_attention_layernorm", "blk.*.ffn_norm" },
    { MLP "gate.weight", "blk.*.ffn_gate_inp.weight" },
    { MLP "gate.e_score_correction_bias", "blk.*.exp_probs_b" },
    { MLP "gate.tid2eid", "blk.*.ffn_gate_tid2eid.weight" },
    { MLP "experts.w1", "blk.*.ffn_gate_exps" },
    { MLP "experts.w3", "blk.*.ffn_up_exps" },
    { MLP "experts.w2", "blk.*.ffn_down_exps" },
    { MLP "shared_experts.gate_proj", "blk.*.ffn_gate_shexp" },
    { MLP "shared_experts.up_proj", "blk.*.ffn_up_shexp" },
    { MLP "shared_experts.down_proj", "blk.*.ffn_down_shexp" },
    { "model.hc_head.hc_fn", "output_hc_fn.weight" },
    { "model.hc_head.hc_base", "output_hc_base.weight" },
    { "model.hc_head.hc_scale", "output_hc_scale.weight" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

/* Names in published files, and in those that transformers writes, which has "model." before most of them. */
static const lm_name spellings[] = {
    { "model.embed_tokens.weight", "embed.weight" },
    { LAYER "attn_hc.fn", "layers.*.hc_attn_fn" },
    { LAYER "attn_hc.base", "layers.*.hc_attn_base" },
    { LAYER "attn_hc.scale", "layers.*.hc_attn_scale" },
    { LAYER "input_layernorm.weight", "layers.*.attn_norm.weight" },
    { LAYER "self_attn.q_a_proj.weight", "layers.*.attn.wq_a.weight" },
    { LAYER "self_attn.q_a_norm.weight", "layers.*.attn.q_norm.weight" },
    { LAYER "self_attn.q_b_proj.weight", "layers.*.attn.wq_b.weight" },
    { LAYER "self_attn.kv_proj.weight", "layers.*.attn.wkv.weight" },
    { LAYER "self_attn.kv_norm.weight", "layers.*.attn.kv_norm.weight" },
    { LAYER "self_attn.kv_norm.weight", "layers.*.attn.norm.weight" },
    { LAYER "self_attn.sinks", "layers.*.attn.attn_sink" },
    { COMPRESSOR "kv_proj.weight", "layers.*.attn.compressor.wkv.weight" },
    { COMPRESSOR "gate_proj.weight", "layers.*.attn.compressor.wgate.weight" },
    { COMPRESSOR "position_bias", "layers.*.attn.compressor.ape" },
    { COMPRESSOR "kv_norm.weight", "layers.*.attn.compressor.norm.weight" },
    { INDEXER "kv_proj.weight", "layers.*.attn.indexer.compressor.wkv.weight" },
    { INDEXER "gate_proj.weight", "layers.*.attn.indexer.compressor.wgate.weight" },
    { INDEXER "position_bias", "layers.*.attn.indexer.compressor.ape" },
    { INDEXER "kv_norm.weight", "layers.*.attn.indexer.compressor.norm.weight" },
    { INDEXER "q_b_proj.weight", "layers.*.attn.indexer.wq_b.weight" },
    { INDEXER "scorer.weights_proj.weight", "layers.*.attn.indexer.weights_proj.weight" },
    { LAYER "self_attn.o_a_proj.weight", "layers.*.attn.wo_a.weight" },
    { LAYER "self_attn.o_b_proj.weight", "layers.*.attn.wo_b.weight" },
    { LAYER "ffn_hc.fn", "layers.*.hc_ffn_fn" },
    { LAYER "ffn_hc.base", "layers.*.hc_ffn_base" },
    { LAYER "ffn_hc.scale", "layers.*.hc_ffn_scale" },
    { LAYER "post_attention_layernorm.weight", "layers.*.ffn_norm.weight" },
    { "model.norm.weight", "norm.weight" },
    { MLP "gate.weight", "layers.*.ffn.gate.weight" },
    { MLP "gate.e_score_correction_bias", "layers.*.ffn.gate.bias" },
    { MLP "gate.tid2eid", "layers.*.ffn.gate.tid2eid" },
    { MLP "experts.*.w1.weight", "layers.*.ffn.experts.*.w1.weight" },
    { MLP "experts.*.w3.weight", "layers.*.ffn.experts.*.w3.weight" },
    { MLP "experts.*.w2.weight", "layers.*.ffn.experts.*.w2.weight" },
    { MLP "shared_experts.gate_proj.weight", "layers.*.ffn.shared_experts.w1.weight" },
    { MLP "shared_experts.up_proj.weight", "layers.*.ffn.shared_experts.w3.weight" },
    { MLP "shared_experts.down_proj.weight", "layers.*.ffn.shared_experts.w2.weight" },
    { "model.hc_head.hc_fn", "hc_head_fn" },
    { "model.hc_head.hc_base", "hc_head_base" },
    { "model.hc_head.hc_scale", "hc_head_scale" },
    { "lm_head.weight", "head.weight" },
    { NULL, NULL },
};

static const lm_order orders[] = {
    { "V4Model", "embed_tokens layers norm rotary_emb hc_head *" },
    { "V4Attention", "q_a_proj q_a_norm q_b_proj q_b_norm kv_proj kv_norm o_a_proj o_b_proj *" },
    { "DecoderLayer", "self_attn mlp input_layernorm post_attention_layernorm attn_hc ffn_hc *" },
    { NULL, NULL },
};

const lm_family lm_family_deepseek_v4 = {
    .name         = "deepseek_v4",
    .class_prefix = "DeepseekV4",
    .hf_types     = (const char *const[]){ "deepseek_v4", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek4", NULL },
    .orders       = orders,
    .configure    = configure,
    .build        = build,
    .own          = numbers,
    .mixture      = &mixture_keys,
    .names        = names,
    .spellings    = spellings,
    .lists        = lists,
    .fixed_scale  = true,
    .experts_only = true,
    .defaults     = (const lm_default[]){ { "n_routed_experts", 256 }, { "num_experts_per_tok", 6 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { "routed_scaling_factor", 1.5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "q_lora_rank",
                                           "qk_rope_head_dim", "partial_rotary_factor", "n_routed_experts",
                                           "n_shared_experts", "num_experts_per_tok",
                                           "moe_intermediate_size", "routed_scaling_factor", "topk_method",
                                           "norm_topk_prob", "scoring_func", "swiglu_limit", "layer_types",
                                           "compress_ratios", "compress_rates", "compress_rate_csa",
                                           "compress_rate_hca", "compress_rope_theta", "mlp_layer_types",
                                           "num_hash_layers", "sliding_window", "hc_mult",
                                           "hc_sinkhorn_iters", "hc_eps", "o_groups", "o_lora_rank",
                                           "index_n_heads", "index_head_dim", "index_topk",
                                           "num_nextn_predict_layers", "expert_dtype",
                                           "router_aux_loss_coef", "router_jitter_noise", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "mtp.*", "model.mtp.*", NULL },
    .layers       = "model.layers.",
};
