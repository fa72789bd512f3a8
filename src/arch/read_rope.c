/* read_rope.c - rotary embedding as config.json (both spellings) and GGUF describe it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/config.h"

static lm_status wrong(const lm_source *s, const char *key, lm_status code, const char *message, lm_error *e)
{
    lm_fail(e, code, key, LM_NO_OFFSET, "%s", message);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* ---- config.json ----
 * Up to transformers 4: rope_theta and rope_scaling {type or rope_type, …}. From 5: rope_parameters with all of it. */

typedef struct lm_rope_keys {
    const lm_source *s;
    const char      *object;         /* "rope_scaling", "rope_parameters", or NULL when there is neither */
} lm_rope_keys;

static const char *member(const lm_rope_keys *k, const char *name, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s/%s", k->object, name);
    return buffer;
}

static lm_status number(const lm_rope_keys *k, const char *name, double min, double max, double fallback, double *out, lm_error *e)
{
    char        buffer[96];
    const char *key = k->object ? member(k, name, buffer, sizeof buffer) : NULL;

    if (!key || !lm_meta_has(k->s->meta, key)) {
        if (isnan(fallback))
            return wrong(k->s, key, LM_BAD_MODEL, "is needed for this kind of scaling and is not there", e);
        *out = fallback;
        return LM_OK;
    }
    return lm_meta_f64(k->s->meta, key, min, max, out, e);
}

static lm_status scaling_type(const lm_rope_keys *k, lm_rope_type *out, lm_error *e)
{
    static const struct {
        const char  *name;
        lm_rope_type type;
    } known[] = {
        { "default", LM_ROPE_DEFAULT }, { "linear", LM_ROPE_LINEAR }, { "dynamic", LM_ROPE_DYNAMIC },
        { "llama3", LM_ROPE_LLAMA3 },   { "yarn", LM_ROPE_YARN },     { "longrope", LM_ROPE_LONGROPE },
        { "su", LM_ROPE_LONGROPE },
    };
    char        buffer[96];
    const char *key;
    lm_view     word;

    *out = LM_ROPE_DEFAULT;
    if (!k->object)
        return LM_OK;
    key = member(k, "rope_type", buffer, sizeof buffer);
    if (!lm_meta_has(k->s->meta, key))
        key = member(k, "type", buffer, sizeof buffer);
    if (!lm_meta_has(k->s->meta, key)) {
        if (strncmp(k->object, "rope_parameters", 15) == 0)
            return LM_OK;
        return wrong(k->s, k->object, LM_BAD_MODEL, "names no rope_type", e);
    }
    LM_TRY(lm_meta_string(k->s->meta, key, &word, e));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (lm_view_is(word, known[i].name)) {
            *out = known[i].type;
            return LM_OK;
        }
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "rotary scaling \"%.*s\" is not known",
            (int)(word.size < 64 ? word.size : 64), word.data);
    return lm_fail_in(e, lm_meta_file(k->s->meta));
}

static lm_status factor_list(const lm_rope_keys *k, const char *name, uint32_t n, float *out, lm_error *e)
{
    char          buffer[96];
    const char   *key = member(k, name, buffer, sizeof buffer);
    lm_meta_value list, item;

    LM_TRY(lm_meta_array(k->s->meta, key, 512, &list, e));
    if (list.a.n != n) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%" PRIu64 " factors where half the rotated lanes are %u", list.a.n, n);
        return lm_fail_in(e, lm_meta_file(k->s->meta));
    }
    for (uint32_t i = 0; i < n; i++) {
        double f = 0;
        if (lm_meta_at(&list, i, &item))
            f = item.kind == LM_META_FLOAT ? item.f : item.kind == LM_META_UINT ? (double)item.u : 0;
        if (!(f > 0) || !isfinite(f))
            return wrong(k->s, key, LM_BAD_MODEL, "a factor is not a number above 0", e);
        out[i] = (float)f;
    }
    return LM_OK;
}

static lm_status whole(const lm_rope_keys *k, const char *name, uint32_t fallback, uint32_t *out, lm_error *e)
{
    double v;

    LM_TRY(number(k, name, 1, UINT32_MAX, fallback, &v, e));
    *out = (uint32_t)v;
    return LM_OK;
}

static lm_status read_hf(const lm_source *s, double default_base, lm_config *c, lm_error *e)
{
    lm_rope_spec *r = &c->rope;
    lm_rope_keys  k = { s, lm_meta_has(s->meta, "rope_parameters") ? "rope_parameters"
                          : lm_meta_has(s->meta, "rope_scaling")  ? "rope_scaling"
                                                                  : NULL };
    lm_meta_value v;
    char          buffer[96];

    if (k.object && lm_meta_get(s->meta, k.object, &v) && v.kind != LM_META_OBJECT)
        return wrong(s, k.object, LM_BAD_MODEL, "is not an object", e);
    bool by_kind = k.object && (lm_meta_has(s->meta, member(&k, "full_attention", buffer, sizeof buffer)) ||
                                lm_meta_has(s->meta, member(&k, "sliding_attention", buffer, sizeof buffer)));
    if (by_kind && c->rope_local.dim)
        k.object = "rope_parameters/full_attention";
    else if (by_kind)
        return wrong(s, buffer, LM_UNSUPPORTED, "rotary parameters for each kind of layer have no form in this family", e);
    LM_TRY(scaling_type(&k, &r->type, e));
    LM_TRY(number(&k, "rope_theta", 1e-3, 1e30, 0, &r->base, e));
    if (r->base == 0)
        r->base = default_base;
    if (lm_meta_has(s->meta, "rope_theta") && !(k.object && lm_meta_has(s->meta, member(&k, "rope_theta", buffer, sizeof buffer))))
        LM_TRY(lm_meta_f64(s->meta, "rope_theta", 1e-3, 1e30, &r->base, e));

    uint32_t top_level = 0;
    LM_TRY(lm_read_u32(s, "original_max_position_embeddings", NULL, 1, UINT32_MAX, 0, &top_level, e));
    LM_TRY(whole(&k, "original_max_position_embeddings", top_level ? top_level : c->context_length, &r->original_context, e));
    r->max_context = c->context_length;

    bool by_ratio = r->type == LM_ROPE_YARN || r->type == LM_ROPE_LONGROPE;
    bool needed   = r->type == LM_ROPE_LINEAR || r->type == LM_ROPE_DYNAMIC || r->type == LM_ROPE_LLAMA3;
    LM_TRY(number(&k, "factor", 1e-6, 1e6, by_ratio ? (double)c->context_length / r->original_context : needed ? NAN : 1,
                  &r->factor, e));
    if (r->type == LM_ROPE_LLAMA3) {
        LM_TRY(number(&k, "low_freq_factor", 1e-6, 1e6, NAN, &r->low_freq_factor, e));
        LM_TRY(number(&k, "high_freq_factor", 1e-6, 1e6, NAN, &r->high_freq_factor, e));
        if (r->low_freq_factor == r->high_freq_factor)
            return wrong(s, member(&k, "high_freq_factor", buffer, sizeof buffer), LM_BAD_MODEL, "equals low_freq_factor", e);
    }
    if (r->type == LM_ROPE_YARN) {
        LM_TRY(number(&k, "beta_fast", 1e-6, 1e6, 32, &r->beta_fast, e));
        LM_TRY(number(&k, "beta_slow", 1e-6, 1e6, 1, &r->beta_slow, e));
        LM_TRY(number(&k, "mscale", 0, 1e6, 0, &r->mscale, e));
        LM_TRY(number(&k, "mscale_all_dim", 0, 1e6, 0, &r->mscale_all_dim, e));
        r->truncate = true;
        if (lm_meta_has(s->meta, member(&k, "truncate", buffer, sizeof buffer)))
            LM_TRY(lm_meta_bool(s->meta, buffer, &r->truncate, e));
    }
    if (by_ratio)
        LM_TRY(number(&k, "attention_factor", 0, 1e6, 0, &r->attention_factor, e));
    if (r->type == LM_ROPE_LONGROPE) {
        LM_TRY(factor_list(&k, "short_factor", r->dim / 2, c->longrope[0], e));
        LM_TRY(factor_list(&k, "long_factor", r->dim / 2, c->longrope[1], e));
        r->short_factors = c->longrope[0];
        r->long_factors  = c->longrope[1];
    }
    return LM_OK;
}

/* ---- GGUF ----
 * The default kind is linear with factor 1. There is no "llama3": that scaling is the tensor rope_freqs.weight. ggml
 * multiplies cosines and sines of yarn by 1 + 0.1 ln(factor) itself, on top of the attention factor that is stored. */

static lm_status gguf_f64(const lm_source *s, const char *name, double min, double max, double fallback, double *out, lm_error *e)
{
    char key[128];

    lm_gguf_key(s, name, key, sizeof key);
    if (!lm_meta_has(s->meta, key)) {
        *out = fallback;
        return LM_OK;
    }
    return lm_meta_f64(s->meta, key, min, max, out, e);
}

static lm_status gguf_type(const lm_source *s, lm_rope_type *out, lm_error *e)
{
    char    key[128];
    lm_view word = LM_VIEW("linear");

    lm_gguf_key(s, "rope.scaling.type", key, sizeof key);
    if (s->rope_scaling)
        word = lm_view_of(s->rope_scaling);
    else if (lm_meta_has(s->meta, key))
        LM_TRY(lm_meta_string(s->meta, key, &word, e));
    if (lm_view_is(word, "none"))
        *out = LM_ROPE_DEFAULT;
    else if (lm_view_is(word, "linear"))
        *out = LM_ROPE_LINEAR;
    else if (lm_view_is(word, "yarn"))
        *out = LM_ROPE_YARN;
    else if (lm_view_is(word, "longrope"))
        *out = LM_ROPE_LONGROPE;
    else {
        lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "rotary scaling \"%.*s\" is not known",
                (int)(word.size < 64 ? word.size : 64), word.data);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    return LM_OK;
}

static lm_status read_gguf(const lm_source *s, double default_base, lm_config *c, lm_error *e)
{
    lm_rope_spec *r = &c->rope;
    uint32_t      stored_dim;
    double        attention;
    char          key[128];

    LM_TRY(lm_read_u32(s, NULL, "rope.dimension_count", 1, 65536, r->dim, &stored_dim, e));
    if (stored_dim != r->dim)
        return wrong(s, lm_gguf_key(s, "rope.dimension_count", key, sizeof key), LM_UNSUPPORTED,
                     "differs from the lanes that this family rotates", e);
    LM_TRY(gguf_f64(s, "rope.freq_base", 1e-3, 1e30, default_base, &r->base, e));
    LM_TRY(gguf_type(s, &r->type, e));
    LM_TRY(gguf_f64(s, "rope.scaling.factor", 0, 1e6, 0, &r->factor, e));
    if (r->factor == 0)
        LM_TRY(gguf_f64(s, "rope.scale_linear", 0, 1e6, 1, &r->factor, e));
    if (r->factor == 0)
        r->factor = 1;
    LM_TRY(lm_read_u32(s, NULL, "rope.scaling.original_context_length", 1, UINT32_MAX, c->context_length, &r->original_context, e));
    r->max_context = c->context_length;
    if (r->type == LM_ROPE_LINEAR && r->factor == 1)
        r->type = LM_ROPE_DEFAULT;
    LM_TRY(gguf_f64(s, "rope.scaling.attn_factor", 0, 1e6, 0, &attention, e));
    if (r->type == LM_ROPE_YARN) {
        LM_TRY(gguf_f64(s, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32, &r->beta_fast, e));
        LM_TRY(gguf_f64(s, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1, &r->beta_slow, e));
        r->truncate = true;
        /* yarn_attn_factor is the published attention_factor; attn_factor is what ggml multiplies its own magnitude by */
        LM_TRY(gguf_f64(s, "rope.scaling.yarn_attn_factor", 0, 1e6, 0, &r->attention_factor, e));
        /* 0.1 mscale_all_dim. Files that have it were made from models whose mscale is the same: the two cancel here, and
         * the family puts mscale_all_dim into the scale of the scores. */
        LM_TRY(gguf_f64(s, "rope.scaling.yarn_log_multiplier", 0, 1e5, 0, &r->mscale_all_dim, e));
        r->mscale_all_dim *= 10;
        r->mscale = r->mscale_all_dim;
        if (attention > 0)
            r->attention_factor = attention * (r->factor > 1 ? 1 + 0.1 * log(r->factor) : 1);
    }
    if (r->type == LM_ROPE_LONGROPE)
        r->attention_factor = attention;
    r->stored_divisors = lm_has_tensor(s, "rope_freqs.weight");
    r->stored_factors  = lm_has_tensor(s, "rope_factors_long.weight");
    if (r->stored_factors && r->type != LM_ROPE_LONGROPE) {
        /* Converters leave the kind out: the two lists are what says longrope. */
        r->type             = LM_ROPE_LONGROPE;
        r->attention_factor = attention;
    }
    if (r->type == LM_ROPE_LONGROPE && r->factor == 1)
        r->factor = (double)c->context_length / r->original_context;
    return LM_OK;
}

lm_status lm_read_local_rope(const lm_source *s, double default_base, lm_config *c, lm_error *e)
{
    lm_rope_keys k = { s, lm_meta_has(s->meta, "rope_parameters/sliding_attention") ? "rope_parameters/sliding_attention" : NULL };
    lm_rope_type type;
    double       base = default_base;

    if (s->kind == LM_GGUF) {
        LM_TRY(gguf_f64(s, "rope.freq_base_swa", 1e-3, 1e30, default_base, &base, e));
    } else {
        LM_TRY(scaling_type(&k, &type, e));
        if (type != LM_ROPE_DEFAULT)
            return wrong(s, k.object, LM_UNSUPPORTED, "scales the rotation of layers with a window, which has no form here", e);
        if (!k.object && lm_meta_has(s->meta, "rope_local_base_freq"))
            LM_TRY(lm_meta_f64(s->meta, "rope_local_base_freq", 1e-3, 1e30, &base, e));
        LM_TRY(number(&k, "rope_theta", 1e-3, 1e30, base, &base, e));
    }
    c->rope_local = (lm_rope_spec){ .dim = c->rope.dim, .factor = 1, .base = base, .pairing = c->rope.pairing, .permuted = c->rope.permuted,
                                    .original_context = c->context_length, .max_context = c->context_length };
    return LM_OK;
}

lm_status lm_read_rope(const lm_source *s, uint32_t dim, double default_base, lm_config *c, lm_error *e)
{
    lm_rope_spec *r = &c->rope;

    *r = (lm_rope_spec){ .dim = dim, .factor = 1 };
    if (dim % 2)
        return wrong(s, s->kind == LM_GGUF ? "rope.dimension_count" : "head_dim", LM_BAD_MODEL, "an odd number of lanes cannot rotate", e);
    if (dim > 1024)
        return wrong(s, s->kind == LM_GGUF ? "rope.dimension_count" : "head_dim", LM_UNSUPPORTED, "more than 1024 rotated lanes", e);
    LM_TRY(s->kind == LM_GGUF ? read_gguf(s, default_base, c, e) : read_hf(s, default_base, c, e));
    if (s->rope_freq_base > 0)
        r->base = s->rope_freq_base;
    if (s->yarn_orig_ctx)
        r->original_context = s->yarn_orig_ctx;
    if (s->kind != LM_GGUF && s->rope_scaling) {
        r->type = strcmp(s->rope_scaling, "none") == 0     ? LM_ROPE_DEFAULT
                  : strcmp(s->rope_scaling, "linear") == 0 ? LM_ROPE_LINEAR
                                                           : LM_ROPE_YARN;
        if (r->type == LM_ROPE_YARN && r->beta_fast == 0) {
            r->beta_fast = 32;
            r->beta_slow = 1;
            r->truncate  = true;
        }
    }
    if (s->rope_freq_scale > 0) {
        r->factor = 1 / s->rope_freq_scale;
        if (r->type == LM_ROPE_DEFAULT)
            r->type = LM_ROPE_LINEAR;
    }
    return LM_OK;
}

lm_status lm_read_rotary_lanes(const lm_source *s, const char *hf, double fallback, const lm_config *c, uint32_t *out, lm_error *e)
{
    static const char *const nested[] = { "rope_parameters/partial_rotary_factor", "rope_scaling/partial_rotary_factor" };
    double                   factor   = fallback;

    if (s->kind == LM_GGUF)
        return lm_read_u32(s, NULL, "rope.dimension_count", 1, c->head_dim, c->head_dim, out, e);
    if (lm_meta_has(s->meta, hf))
        LM_TRY(lm_meta_f64(s->meta, hf, 1e-6, 1, &factor, e));
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++)
        if (lm_meta_has(s->meta, nested[i]))
            LM_TRY(lm_meta_f64(s->meta, nested[i], 1e-6, 1, &factor, e));
    *out = (uint32_t)(c->head_dim * factor);
    return *out ? LM_OK : wrong(s, hf, LM_BAD_MODEL, "leaves no lane to rotate", e);
}
