/* latent_layers.c - latent attention, gated MLPs, and mixtures with shared experts, as DeepSeek-V2 (arXiv
 * 2405.04434) introduced them: what later families share.
 *
 * Keys and values come from one latent per token; each head's key ends in lanes that all heads share, which
 * most families rotate. The norms of the latents have an epsilon of 1e-6 regardless of rms_norm_eps. */
#include <math.h>
#include <stdio.h>

#include "arch/families.h"

#define LATENT_EPS 1e-6f

/* The latent of queries; x if there is none. */
static lm_value query_latent(lm_builder *b, const lm_config *c, lm_value x)
{
    if (!c->latent.q_rank)
        return x;
    return lm_rms_norm(b, "q_a_layernorm", lm_linear(b, "q_a_proj", x, c->latent.q_rank, c->bias_qkv),
                       LATENT_EPS);
}

/* DeepSeek-V3.2's indexer (arXiv 2512.02556, 2.1): which keys each query sees. Its rotation has the
 * frequencies of the shared lanes, on the first lanes of its heads. */
static lm_value choice_of_keys(lm_builder *b, const lm_config *c, const lm_indexer *ix, lm_value latent,
                               lm_value x)
{
    lm_rope_spec      rope = c->rope;
    lm_attention_spec spec = { .n_heads = ix->n_heads, .n_kv_heads = 1, .k_dim = ix->head_dim,
                               .v_dim = ix->head_dim, .v_in_k = true, .top_k = ix->top_k,
                               .scale = 1 / sqrtf((float)ix->head_dim * (float)ix->n_heads) };

    rope.pairing = ix->pairing;
    lm_push(b, "indexer", "%sIndexer");
    lm_value q = lm_linear(b, "wq_b", latent, ix->n_heads * ix->head_dim, false);
    q          = lm_rope(b, q, ix->n_heads, &rope);
    lm_value k = lm_layer_norm(b, "k_norm", lm_linear(b, "wk", x, ix->head_dim, false), LATENT_EPS, true);
    lm_value w = lm_linear(b, "weights_proj", x, ix->n_heads, false);
    lm_value chosen = lm_select_keys(b, "chosen", q, lm_rope(b, k, 1, &rope), w, &spec);
    lm_pop(b);
    return chosen;
}

/* Rotate the lanes that all heads share, unless the family does not. */
static lm_value rotated(lm_builder *b, const lm_config *c, lm_value x, uint32_t n_heads)
{
    return c->rope.dim ? lm_rope(b, x, n_heads, &c->rope) : x;
}

lm_value lm_latent_heads(lm_builder *b, const lm_config *c, lm_value x)
{
    return lm_sparse_latent_heads(b, c, NULL, x);
}

lm_value lm_sparse_latent_heads(lm_builder *b, const lm_config *c, const lm_indexer *ix, lm_value x)
{
    static const char *const parts[2]    = { "k_b_proj", "v_b_proj" };
    static const char *const words[2][2] = { { "q_shared", "k_shared" }, { "q_pe", "k_pe" } };
    const char *const       *shared      = words[c->rope.dim > 0];
    uint32_t nope = c->latent.nope_dim, rope = c->latent.rope_dim, rank = c->latent.kv_rank;

    lm_value own    = query_latent(b, c, x);
    lm_value q      = lm_linear(b, c->latent.q_rank ? "q_b_proj" : "q_proj", own, c->n_heads * c->head_dim,
                                false);
    q               = lm_temperature(b, q, &c->temperature);
    lm_value q_nope = lm_columns(b, "q_nope", q, c->n_heads, 0, nope);
    lm_value q_pe   = rotated(b, c, lm_columns(b, shared[0], q, c->n_heads, nope, rope), c->n_heads);
    lm_value kv     = lm_linear(b, "kv_a_proj_with_mqa", x, rank + rope, c->bias_qkv);
    lm_value latent = lm_rms_norm(b, "kv_a_layernorm", lm_columns(b, "latent", kv, 1, 0, rank), LATENT_EPS);
    lm_value k_pe   = rotated(b, c, lm_columns(b, shared[1], kv, 1, rank, rope), 1);
    lm_value chosen = !ix ? LM_NONE : ix->shared ? lm_last_choice(b) : choice_of_keys(b, c, ix, own, x);
    return lm_latent_attention(b, "kv_b_proj", parts, q_nope, q_pe, latent, k_pe, chosen, &c->attention);
}

lm_value lm_gated_mlp(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t width)
{
    return lm_gated_mlp_of(b, c, name, "%sMLP", x, width);
}

lm_value lm_gated_mlp_of(lm_builder *b, const lm_config *c, const char *name, const char *class_name,
                         lm_value x, uint32_t width)
{
    lm_push(b, name, class_name);
    lm_value gate = lm_linear(b, "gate_proj", x, width, c->bias_mlp);
    lm_value up   = lm_linear(b, "up_proj", x, width, c->bias_mlp);
    lm_value y    = lm_glu_clamped(b, gate, up, c->act, c->gate_limit, c->gate_plus);
    lm_value down = lm_linear(b, "down_proj", y, c->hidden, c->bias_mlp);
    lm_pop(b);
    return down;
}

lm_value lm_shared_mixture(lm_builder *b, const lm_config *c, const lm_mixture_names *names, lm_value x)
{
    lm_expert_spec spec = { .n_experts = c->route.n_experts,
                            .top_k = c->route.top_k,
                            .width = c->expert_width,
                            .act = c->act,
                            .limit = c->gate_limit,
                            .plus = c->gate_plus,
                            .names = { names->parts[0], names->parts[1], names->parts[2] },
                            .joined = names->joined,
                            .alone = names->alone };

    lm_push(b, names->module, names->class_name);
    if (names->router)
        lm_push(b, names->router, names->router_class);
    lm_value route = lm_linear(b, names->router ? names->logits : "gate", x, c->route.n_experts, false);
    if (names->router)
        lm_pop(b);
    route = lm_route(b, lm_capped(b, route, names->cap), &c->route, names->correction);
    if (names->in_row)
        lm_correction_in_row(b, route);
    if (names->unsuffixed)
        lm_correction_unsuffixed(b, route);
    lm_value y = lm_experts_of(b, "experts", x, route, &spec);
    const char *shared = names->shared ? names->shared : "shared_experts";
    const char *class_name = names->shared_class ? names->shared_class : "%sMLP";
    if (c->shared_width)
        y = lm_add(b, y, lm_gated_mlp_of(b, c, shared, class_name, x, c->shared_width));
    if (c->shared_width && names->averaged)
        y = lm_scale(b, y, 0.5f);
    lm_pop(b);
    return y;
}

lm_value lm_routed_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_mixture_names names = { .module = "mlp",
                               .class_name = c->route.sigmoid ? "%sMoE" : "%sMoe",
                               .correction = c->route.sigmoid ? "gate.e_score_correction_bias" : NULL,
                               .parts = { "gate_proj", "up_proj", "down_proj" } };

    return lm_shared_mixture(b, c, &names, x);
}

lm_value lm_latent_mixer(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_value o = lm_linear(b, "o_proj", lm_latent_heads(b, c, x), c->hidden, c->bias_o);
    lm_pop(b);
    return o;
}

lm_value lm_latent_half(lm_builder *b, const lm_config *c, lm_value x)
{
    return lm_add(b, x, lm_latent_mixer(b, c, lm_llama_norm(b, c, "input_layernorm", x)));
}

lm_value lm_latent_layer(lm_builder *b, const lm_config *c, bool dense, lm_value x)
{
    x          = lm_latent_half(b, c, x);
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, dense ? lm_llama_mlp(b, c, h) : lm_routed_mlp(b, c, h));
}

/* ---- metadata ---- */

static lm_status read_decoder(const lm_source *s, const char *context, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_layers(s, c, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "intermediate_size", "feed_forward_length", 1, 1u << 20, -1, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, context, "context_length", 1, UINT32_MAX, 2048, &c->context_length, e));
    LM_TRY(
        lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1, 1e-6, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o     = c->bias_qkv;
    c->n_kv_heads = c->n_heads;
    return LM_OK;
}

/* Read the head sizes. Newer GGUF files have those of the latent as key and value length, and those of a head
 * in separate keys. */
static lm_status read_head_sizes(const lm_source *s, const lm_latent_keys *k, lm_config *c, lm_error *e)
{
    int64_t       value = k->value_of_hidden     ? (int64_t)(c->hidden / c->n_heads)
                          : s->kind == LM_GGUF ? -1
                                               : 128;
    lm_meta_value v;
    char          key[128];

    if (s->kind == LM_GGUF || (lm_meta_get(s->meta, "q_lora_rank", &v) && v.kind == LM_META_NULL))
        LM_TRY(lm_read_u32(s, NULL, "attention.q_lora_rank", 0, 1u << 18, 0, &c->latent.q_rank, e));
    else
        LM_TRY(lm_read_u32(s, "q_lora_rank", NULL, 0, 1u << 18, 1536, &c->latent.q_rank, e));
    LM_TRY(lm_read_u32(s, "kv_lora_rank", "attention.kv_lora_rank", 1, 1u << 18, 512, &c->latent.kv_rank, e));
    LM_TRY(lm_read_u32(s, "qk_rope_head_dim", "rope.dimension_count", 2, 65536, 64, &c->latent.rope_dim, e));
    if (s->kind == LM_GGUF) {
        bool newer = lm_meta_has(s->meta, lm_gguf_key(s, "attention.key_length_mla", key, sizeof key));
        LM_TRY(lm_read_u32(s, NULL, newer ? "attention.key_length_mla" : "attention.key_length", 1, 65536, -1,
                           &c->head_dim, e));
        LM_TRY(lm_read_u32(s, NULL, newer ? "attention.value_length_mla" : "attention.value_length", 1, 65536,
                           value, &c->latent.v_dim, e));
        if (c->head_dim <= c->latent.rope_dim)
            return lm_wrong(s, NULL, "rope.dimension_count", e,
                            "%u leaves no dimensions of a key of %u that are not rotated", c->latent.rope_dim,
                            c->head_dim);
        c->latent.nope_dim = c->head_dim - c->latent.rope_dim;
    } else {
        LM_TRY(lm_read_u32(s, "qk_nope_head_dim", NULL, 1, 65536, 128, &c->latent.nope_dim, e));
        LM_TRY(lm_read_u32(s, "v_head_dim", NULL, 1, 65536, value, &c->latent.v_dim, e));
        c->head_dim = c->latent.nope_dim + c->latent.rope_dim;
    }
    uint64_t all = (uint64_t)c->head_dim + c->latent.v_dim + c->latent.kv_rank;

    return c->n_heads * all > 1u << 24
               ? lm_wrong(s, "num_attention_heads", "attention.head_count", e,
                          "%u times the widths of a head is beyond 16777216", c->n_heads)
               : LM_OK;
}

static lm_status expect_u32(const lm_source *s, const char *name, uint32_t value, const char *because,
                            lm_config *c, lm_error *e)
{
    uint32_t v;

    LM_TRY(lm_read_per_layer(s, NULL, name, 1u << 20, value, c, c->stateful, &v, e));
    return v == value ? LM_OK : lm_wrong(s, NULL, name, e, "%u, but %s make it %u", v, because, value);
}

/* Newer GGUF files describe what is cached, one head that is the latent; older ones describe the actual
 * heads. */
static lm_status check_heads(const lm_source *s, const lm_latent_keys *k, lm_config *c, lm_error *e)
{
    char key[128];

    if (s->kind != LM_GGUF)
        return LM_OK;
    if (!lm_meta_has(s->meta, lm_gguf_key(s, "attention.key_length_mla", key, sizeof key)))
        return expect_u32(s, "attention.head_count_kv", c->n_heads,
                          "heads with separate keys (attention.head_count)", c, e);
    LM_TRY(expect_u32(s, "attention.head_count_kv", 1, "heads that share a latent (attention.key_length_mla)",
                      c, e));
    LM_TRY(expect_u32(s, "attention.key_length", c->latent.kv_rank + c->latent.rope_dim,
                      "attention.kv_lora_rank and rope.dimension_count", c, e));
    return k->any_value_length ? LM_OK
                               : expect_u32(s, "attention.value_length", c->latent.kv_rank,
                                            "attention.kv_lora_rank and attention.value_length_mla", c, e);
}

lm_status lm_read_latent_sizes(const lm_source *s, const lm_latent_keys *k, lm_config *c, lm_error *e)
{
    LM_TRY(read_decoder(s, k->context, c, e));
    LM_TRY(read_head_sizes(s, k, c, e));
    LM_TRY(check_heads(s, k, c, e));
    c->attention = (lm_attention_spec){ .n_heads = c->n_heads,
                                        .n_kv_heads = c->n_heads,
                                        .k_dim = c->head_dim,
                                        .v_dim = c->latent.v_dim,
                                        .scale = 1 / sqrtf((float)c->head_dim) };
    return LM_OK;
}

/* Read the width of all shared experts, which GGUF files may have beside their number, or alone. */
static lm_status read_shared(const lm_source *s, const lm_mixture_keys *k, lm_config *c, lm_error *e)
{
    static const char *const width = "expert_shared_feed_forward_length";
    bool     alone = s->kind == LM_GGUF && k->gguf_shared == LM_SHARED_WIDTH;
    uint32_t shared = 0, both;

    if (alone)
        return lm_read_u32(s, NULL, width, 1, 1u << 20, c->expert_width, &c->shared_width, e);
    if (k->shared)
        LM_TRY(lm_read_u32(s, k->shared, "expert_shared_count", 0, 1024, 0, &shared, e));
    if ((uint64_t)shared * c->expert_width > 1u << 20)
        return lm_wrong(s, k->shared, "expert_shared_count", e,
                        "%u times the width of an expert, %u, is beyond 1048576", shared, c->expert_width);
    c->shared_width = shared * c->expert_width;
    if (k->gguf_shared != LM_SHARED_BOTH)
        return LM_OK;
    LM_TRY(lm_read_u32(s, NULL, width, 0, 1u << 20, c->shared_width, &both, e));
    return both == c->shared_width
               ? LM_OK
               : lm_wrong(s, NULL, width, e,
                          "%u; %u is expected, expert_shared_count times the width of an expert", both,
                          c->shared_width);
}

lm_status lm_read_shared_mixture(const lm_source *s, const lm_mixture_keys *k, lm_config *c, lm_error *e)
{
    lm_route_spec *r = &c->route;

    LM_TRY(lm_read_u32(s, k->experts, "expert_count", 1, LM_MAX_EXPERTS, -1, &r->n_experts, e));
    LM_TRY(lm_read_listed(s, k->top_k, "expert_used_count", r->n_experts, -1, c, &r->top_k, e));
    LM_TRY(lm_read_listed(s, k->width ? k->width : "moe_intermediate_size", "expert_feed_forward_length",
                          1u << 20, -1, c, &c->expert_width, e));
    r->scale = 1;
    if (k->scale)
        LM_TRY(lm_read_f32(s, k->scale, "expert_weights_scale", 1e-6, 1e6, 1, &r->scale, e));
    return read_shared(s, k, c, e);
}

const lm_mixture_keys lm_deepseek_keys = { .experts = "n_routed_experts", .top_k = "num_experts_per_tok",
                                           .shared = "n_shared_experts", .scale = "routed_scaling_factor", .normalised = "norm_topk_prob",
                                           .groups = "n_group" };

static bool says(const lm_source *s, const char *key, const char *word)
{
    lm_view found;

    return s->kind != LM_GGUF && lm_meta_string(s->meta, key, &found, NULL) == LM_OK &&
           lm_view_is(found, word);
}

lm_status lm_read_corrected_mixture(const lm_source *s, const lm_mixture_keys *k, lm_config *c, lm_error *e)
{
    uint32_t scoring;

    LM_TRY(lm_read_shared_mixture(s, k, c, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 2, 2, 2, &scoring, e));
    if (!says(s, "scoring_func", "noaux_tc"))    /* as dots1's files call it */
        LM_TRY(lm_expect_word(s, "scoring_func", "sigmoid", e));
    LM_TRY(lm_expect_word(s, "topk_method", "noaux_tc", e));
    c->route.sigmoid     = true;
    c->route.renormalise = true;
    if (k->normalised)
        LM_TRY(lm_read_bool(s, k->normalised, "expert_weights_norm", k->normalises, &c->route.renormalise,
                            e));
    if (!k->groups)
        return LM_OK;
    c->route.group_sum_two = true;
    return lm_read_expert_groups(s, k->groups, c, e);
}

lm_status lm_read_latent_rotation(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_rope(s, c->latent.rope_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    lm_latent_scale(c);
    return LM_OK;
}

void lm_latent_scale(lm_config *c)
{
    double m = c->rope.type != LM_ROPE_DEFAULT && c->rope.factor > 1
                   ? 0.1 * c->rope.mscale_all_dim * log(c->rope.factor) + 1
                   : 1;
    c->attention.scale = (float)(m * m / sqrt(c->head_dim));
}

lm_status lm_read_same_kv_heads(const lm_source *s, const lm_config *c, lm_error *e)
{
    uint32_t n;

    LM_TRY(lm_read_u32(s, "num_key_value_heads", NULL, 1, 1024, c->n_heads, &n, e));
    return n == c->n_heads ? LM_OK : lm_no_form(s, "num_key_value_heads", "is not num_attention_heads", e);
}

lm_status lm_read_mlp_kinds(const lm_source *s, uint32_t first, bool *dense, const lm_config *c, lm_error *e)
{
    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "mlp_layer_types"))
        return lm_read_layer_kinds(s, "mlp_layer_types", "dense", "sparse", dense, c, e);
    for (uint32_t i = 0; i < c->n_layers; i++)
        dense[i] = i < first;
    return LM_OK;
}

uint32_t lm_leading(const bool *dense, const lm_config *c)
{
    uint32_t n = 0;

    while (n < c->n_layers && dense[n])
        n++;
    return n;
}

void lm_find_mlp_kinds(const lm_source *s, bool *dense, const lm_config *c)
{
    char name[64];

    for (uint32_t i = 0; s->kind == LM_GGUF && s->tensors && i < c->n_layers; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
        dense[i] = !lm_has_tensor(s, name);
    }
}

lm_status lm_read_expert_groups(const lm_source *s, const char *hf, lm_config *c, lm_error *e)
{
    lm_route_spec *r = &c->route;

    LM_TRY(lm_read_u32(s, hf, "expert_group_count", 1, LM_MAX_GROUPS, 1, &r->n_groups, e));
    LM_TRY(lm_read_u32(s, "topk_group", "expert_group_used_count", 1, r->n_groups, r->n_groups,
                       &r->top_groups, e));
    if (r->n_experts % r->n_groups)
        return lm_wrong(s, hf, "expert_group_count", e, "%u does not divide the number of experts, %u",
                        r->n_groups, r->n_experts);
    if (r->top_groups * (r->n_experts / r->n_groups) < r->top_k)
        return lm_wrong(s, hf, "expert_group_count", e,
                        "%u: the %u groups that are open hold fewer experts than a token uses, %u",
                        r->n_groups, r->top_groups, r->top_k);
    return LM_OK;
}
