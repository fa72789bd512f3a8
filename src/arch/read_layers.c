/* read_layers.c - read what layers have: numbers that files may store once per layer, the sizes of a decoder,
 * kinds of layers, windows. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arch/config.h"

lm_status lm_read_per_layer(const lm_source *s, const char *hf, const char *gguf, uint32_t max,
                            int64_t fallback, const lm_config *c, bool *none, uint32_t *out, lm_error *e)
{
    uint32_t      n_layers = c->n_layers, entries = n_layers + c->n_further;
    char          key[128];
    lm_meta_value v, item;
    bool          any = false;

    lm_warn_of_pair(s, hf, gguf);
    if (s->kind != LM_GGUF || !lm_meta_get(s->meta, lm_gguf_key(s, gguf, key, sizeof key), &v) ||
        v.kind != LM_META_ARRAY)
        return lm_read_u32(s, hf, gguf, 1, max, fallback, out, e);
    if (v.a.n != entries) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%" PRIu64 " entries for %u layers", v.a.n, entries);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    for (uint32_t i = 0; i < n_layers; i++) {
        if (!lm_meta_at(&v, i, &item) || item.kind != LM_META_UINT || item.u < !none || item.u > max) {
            lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "entry %u is not a whole number from %d to %u", i,
                    !none, max);
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
        if (none && (none[i] = !item.u))
            continue;
        if (any && item.u != *out) {
            lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET,
                    "layers differ (%u and %" PRIu64 "), which this family has no form for", *out, item.u);
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
        *out = (uint32_t)item.u;
        any  = true;
    }
    if (any)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "is 0 in every layer");
    return lm_fail_in(e, lm_meta_file(s->meta));
}

lm_status lm_read_by_kind(const lm_source *s, const char *hf, const char *gguf, uint32_t max,
                          const bool *kind, const lm_config *c, uint32_t out[2], lm_error *e)
{
    char          key[128];
    lm_meta_value v, item;
    bool          any[2] = { false, false };

    const char *name    = s->kind == LM_GGUF ? lm_gguf_key(s, gguf, key, sizeof key) : hf;
    uint32_t    entries = c->n_layers + c->n_further;

    if (!lm_meta_get(s->meta, name, &v) || v.kind != LM_META_ARRAY) {
        LM_TRY(lm_read_u32(s, hf, gguf, 1, max, -1, &out[0], e));
        out[1] = out[0];
        return LM_OK;
    }
    lm_warn_of_pair(s, hf, gguf);
    if (v.a.n != entries)
        return lm_wrong(s, hf, gguf, e, "%" PRIu64 " entries for %u layers", v.a.n, entries);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool k = kind[i];
        if (!lm_meta_at(&v, i, &item) || item.kind != LM_META_UINT || item.u < 1 || item.u > max)
            return lm_wrong(s, hf, gguf, e, "entry %u is not a whole number from 1 to %u", i, max);
        if (any[k] && item.u != out[k])
            return lm_wrong(s, hf, gguf, e, "layers of one kind differ: %u and %" PRIu64, out[k], item.u);
        out[k] = (uint32_t)item.u;
        any[k] = true;
    }
    for (int k = 0; k < 2; k++)
        out[k] = any[k] ? out[k] : out[!k];
    return LM_OK;
}

lm_status lm_read_listed(const lm_source *s, const char *hf, const char *gguf, uint32_t max, int64_t fallback,
                         const lm_config *c, uint32_t *out, lm_error *e)
{
    lm_meta_value v, item;

    if (s->kind == LM_GGUF || !lm_meta_get(s->meta, hf, &v) || v.kind != LM_META_ARRAY)
        return lm_read_per_layer(s, hf, gguf, max, fallback, c, NULL, out, e);
    if (v.a.n != c->n_layers)
        return lm_wrong(s, hf, gguf, e, "%" PRIu64 " entries for %u layers", v.a.n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!lm_meta_at(&v, i, &item) || item.kind != LM_META_UINT || item.u < 1 || item.u > max)
            return lm_wrong(s, hf, gguf, e, "entry %u is not a whole number from 1 to %u", i, max);
        if (i && item.u != *out)
            return lm_wrong(s, hf, gguf, e,
                            "layers differ (%u and %" PRIu64 "), which this family has no form for", *out,
                            item.u);
        *out = (uint32_t)item.u;
    }
    return LM_OK;
}

/* ---- kinds of layers ---- */

/* Newer configurations have a common word for layers with any kind of state, older ones a short one for
 * attention. */
static bool is_kind(lm_view found, const char *word)
{
    return lm_view_is(found, word) || (strcmp(word, "mamba") == 0 && lm_view_is(found, "linear_attention")) ||
           (strcmp(word, "full_attention") == 0 && lm_view_is(found, "attention"));
}

lm_status lm_read_layer_words(const lm_source *s, const char *key, const char *const *words, uint8_t *which,
                              const lm_config *c, lm_error *e)
{
    lm_meta_value list, item;

    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    if (list.a.n != c->n_layers)
        return lm_wrong(s, key, NULL, e, "%" PRIu64 " entries for %u layers", list.a.n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_view kind = lm_meta_at(&list, i, &item) && item.kind == LM_META_STRING ? item.s : (lm_view){ 0 };
        for (which[i] = 0; which[i] < 3 && words[which[i]] && !is_kind(kind, words[which[i]]);)
            which[i]++;
        if (which[i] == 3 || !words[which[i]])
            return lm_wrong(s, key, NULL, e, "layer %u is \"%.*s\"; \"%s\"%s%s%s or \"%s\" is expected", i,
                            (int)(kind.size < 64 ? kind.size : 64), kind.data ? kind.data : "", words[0],
                            words[2] ? ", \"" : "", words[2] ? words[1] : "", words[2] ? "\"" : "",
                            words[2] ? words[2] : words[1]);
    }
    return LM_OK;
}

lm_status lm_read_layer_kinds(const lm_source *s, const char *key, const char *word, const char *other,
                              bool *is, const lm_config *c, lm_error *e)
{
    const char *const words[3] = { word, other };
    uint8_t           which[LM_MAX_LAYERS];

    LM_TRY(lm_read_layer_words(s, key, words, which, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        is[i] = which[i] == 0;
    return LM_OK;
}

/* ---- sizes ---- */

lm_status lm_read_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_u32(s, "num_hidden_layers", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    if (s->kind == LM_GGUF)
        LM_TRY(lm_read_u32(s, NULL, "nextn_predict_layers", 0, c->n_layers - 1, 0, &c->n_further,
                           e));
    c->n_layers -= c->n_further;
    return LM_OK;
}

/* Return the width of the experts if a GGUF file has no other MLPs, else -1. */
static int64_t experts_only(const lm_source *s)
{
    char          key[128];
    lm_meta_value v;
    bool          has = s->kind == LM_GGUF &&
               lm_meta_get(s->meta, lm_gguf_key(s, "expert_feed_forward_length", key, sizeof key), &v);

    return has && v.kind == LM_META_UINT && v.u && v.u <= LM_MAX_WIDTH ? (int64_t)v.u : -1;
}

static lm_status read_widths(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, LM_MAX_WIDTH, -1, &c->hidden, e));
    LM_TRY(lm_read_layers(s, c, e));
    return lm_read_per_layer(s, "intermediate_size", "feed_forward_length", LM_MAX_WIDTH, experts_only(s), c,
                             NULL, &c->intermediate, e);
}

static lm_status read_shape(const lm_source *s, bool *stateful, lm_config *c, lm_error *e)
{
    LM_TRY(read_widths(s, c, e));
    LM_TRY(lm_read_per_layer(s, "num_attention_heads", "attention.head_count", LM_MAX_HEADS, -1, c, NULL,
                             &c->n_heads, e));
    LM_TRY(lm_read_per_layer(s, "num_key_value_heads", "attention.head_count_kv", LM_MAX_HEADS, c->n_heads, c,
                             stateful, &c->n_kv_heads, e));
    if (c->n_heads % c->n_kv_heads)
        return lm_wrong(s, "num_key_value_heads", "attention.head_count_kv", e,
                        "%u does not divide the number of query heads, %u", c->n_kv_heads, c->n_heads);
    LM_TRY(lm_read_head_dim(s, "num_attention_heads", c, e));
    return lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 2048,
                       &c->context_length, e);
}

lm_status lm_read_layer_norm_sizes(const lm_source *s, const char *hf, lm_config *c, lm_error *e)
{
    LM_TRY(read_shape(s, NULL, c, e));
    return lm_read_f32(s, hf, "attention.layer_norm_epsilon", 1e-20, 1, 1e-5, &c->norm_eps, e);
}

lm_status lm_read_sizes(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(read_shape(s, NULL, c, e));
    return lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e);
}

/* Return whether some layer has a window (local), or none. */
static bool some_layer(const lm_config *c, bool local)
{
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->full[i] != local)
            return true;
    return false;
}

/* n, kv [2]: of layers with a window, of the others. */
static lm_status read_heads_by_kind(const lm_source *s, const lm_kind_keys *k, lm_config *c, lm_error *e)
{
    const char *of = k->heads && lm_meta_has(s->meta, k->heads) ? k->heads : "num_attention_heads";
    uint32_t    n[2], kv[2];

    if (s->kind != LM_GGUF)          /* required beside a list, too */
        LM_TRY(lm_read_u32(s, "num_attention_heads", NULL, 1, LM_MAX_HEADS, -1, &n[1], e));
    LM_TRY(lm_read_by_kind(s, of, "attention.head_count", LM_MAX_HEADS, c->full, c, n, e));
    LM_TRY(lm_read_by_kind(s, "num_key_value_heads", "attention.head_count_kv", LM_MAX_HEADS, c->full, c, kv,
                           e));
    if (s->kind != LM_GGUF && k->kv_heads)
        LM_TRY(lm_read_u32(s, k->kv_heads, NULL, 1, LM_MAX_HEADS, kv[1] * (int64_t)k->kv_factor, &kv[0], e));
    for (int i = 0; i < 2; i++)
        if (some_layer(c, i == 0) && n[i] % kv[i])
            return lm_wrong(s, "num_key_value_heads", "attention.head_count_kv", e,
                            "%u does not divide the number of query heads, %u", kv[i], n[i]);
    c->n_heads          = n[0] > n[1] ? n[0] : n[1];         /* the width of all heads is bounded */
    c->local.n_heads    = n[0];
    c->local.n_kv_heads = kv[0];
    LM_TRY(lm_read_key_dim(s, "num_attention_heads", c, e));
    c->n_heads    = n[1];
    c->n_kv_heads = kv[1];
    c->local.head_dim = n[0] != n[1] || kv[0] != kv[1] ? c->head_dim : 0;
    return LM_OK;
}

lm_status lm_read_sizes_by_kind(const lm_source *s, const lm_kind_keys *k, lm_config *c, lm_error *e)
{
    LM_TRY(read_widths(s, c, e));
    LM_TRY(k->windows(s, c, e));
    LM_TRY(read_heads_by_kind(s, k, c, e));
    LM_TRY(lm_read_u32(s, k->v_dim, "attention.value_length", 1, 65536, c->head_dim, &c->local.v_dim, e));
    uint32_t heads = c->n_heads > c->local.n_heads ? c->n_heads : c->local.n_heads;
    if ((uint64_t)heads * c->local.v_dim > LM_MAX_WIDTH)
        return lm_wrong(s, k->v_dim, "attention.value_length", e,
                        "%u heads times a width of %u are beyond %u", heads, c->local.v_dim, LM_MAX_WIDTH);
    if (!k->v_dim && c->local.v_dim != c->head_dim)
        return lm_wrong(s, NULL, "attention.value_length", e,
                        "%u dimensions, but keys have %u: this family has no form for that", c->local.v_dim,
                        c->head_dim);
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 2048,
                       &c->context_length, e));
    return lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e);
}

lm_status lm_read_mixed_sizes(const lm_source *s, const char *word, const char *eps, lm_config *c,
                              lm_error *e)
{
    LM_TRY(read_shape(s, c->stateful, c, e));
    if (s->kind != LM_GGUF && word && lm_meta_has(s->meta, "layer_types"))
        LM_TRY(lm_read_layer_kinds(s, "layer_types", word, "full_attention", c->stateful, c, e));
    return lm_read_f32(s, eps, "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e);
}

lm_status lm_read_attention_layers(const lm_source *s, const char *key, lm_config *c, lm_error *e)
{
    lm_meta_value list, item;

    if (s->kind == LM_GGUF || lm_meta_has(s->meta, "layer_types") || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->stateful[i] = true;
    for (uint64_t i = 0; lm_meta_at(&list, i, &item); i++) {
        if (item.kind != LM_META_UINT || item.u >= c->n_layers)
            return lm_wrong(s, key, NULL, e, "entry %" PRIu64 " is not below the %u layers", i, c->n_layers);
        c->stateful[item.u] = false;
    }
    return LM_OK;
}

/* ---- windows ---- */

lm_attention_spec lm_layer_attention(const lm_config *c, uint32_t layer)
{
    lm_attention_spec s = c->attention;

    if (c->full[layer]) {
        s.window = s.top_k = s.block = s.local = s.n_choices = 0;
        s.chunked = false;
    } else if (c->local.head_dim) {
        s.n_heads    = c->local.n_heads;
        s.n_kv_heads = c->local.n_kv_heads;
        s.k_dim      = c->local.head_dim;
        s.v_dim      = c->local.v_dim;
        s.sinks      = c->local.sinks;
    }
    return s;
}

static lm_status read_pattern_list(const lm_source *s, const char *key, const lm_meta_value *list,
                                   lm_config *c, lm_error *e)
{
    lm_meta_value item;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool known = list->a.n == c->n_layers + c->n_further && lm_meta_at(list, i, &item) &&
                     (item.kind == LM_META_BOOL || item.kind == LM_META_UINT);
        if (!known) {
            lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "does not have one entry per layer");
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
        c->full[i] = item.kind == LM_META_BOOL ? !item.b : !item.u;
    }
    return LM_OK;
}

lm_status lm_read_window_pattern(const lm_source *s, const char *hf, uint32_t every, lm_config *c,
                                 lm_error *e)
{
    char          key[128];
    lm_meta_value v;

    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "layer_types"))
        return LM_OK;
    if (s->kind == LM_GGUF &&
        lm_meta_get(s->meta, lm_gguf_key(s, "attention.sliding_window_pattern", key, sizeof key), &v) &&
        v.kind == LM_META_ARRAY)
        return read_pattern_list(s, key, &v, c, e);
    LM_TRY(lm_read_u32(s, hf, "attention.sliding_window_pattern", 0, LM_MAX_LAYERS, every, &every, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->full[i] = every && (i + 1) % every == 0;
    return LM_OK;
}

lm_status lm_read_pattern_from_first(const lm_source *s, uint32_t every, lm_config *c, lm_error *e)
{
    char          key[128];
    lm_meta_value v;

    LM_TRY(lm_read_window_pattern(s, NULL, every, c, e));
    if (s->kind != LM_GGUF ||
        (lm_meta_get(s->meta, lm_gguf_key(s, "attention.sliding_window_pattern", key, sizeof key), &v) &&
         v.kind == LM_META_ARRAY))
        return LM_OK;
    LM_TRY(lm_read_u32(s, NULL, "attention.sliding_window_pattern", 1, LM_MAX_LAYERS, every, &every, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->full[i] = i % every == 0;
    return LM_OK;
}

lm_status lm_read_window(const lm_source *s, uint32_t fallback, lm_config *c, lm_error *e)
{
    lm_meta_value v;

    if (s->kind == LM_GGUF)
        return lm_read_u32(s, NULL, "attention.sliding_window", 0, UINT32_MAX, fallback, &c->attention.window,
                           e);
    if (lm_meta_get(s->meta, "sliding_window", &v) && v.kind == LM_META_NULL)
        c->attention.window = 0;
    else
        LM_TRY(lm_read_u32(s, "sliding_window", NULL, 1, UINT32_MAX, fallback, &c->attention.window, e));
    if (!lm_meta_has(s->meta, "layer_types"))
        return LM_OK;
    LM_TRY(lm_read_layer_kinds(s, "layer_types", "sliding_attention", "full_attention", c->full, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->full[i] = !c->full[i];
    return LM_OK;
}
