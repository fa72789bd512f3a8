/* read_rope.c - read the rotary embedding from config.json (both spellings) and GGUF. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/config.h"

/* ---- config.json ----
 * Up to transformers 4: rope_theta and rope_scaling {type or rope_type, …}. From 5: rope_parameters with all
 * of it, or with one such dictionary per kind of layer. If a file has both, transformers uses
 * rope_scaling. */

typedef struct lm_rope_keys {
    const lm_source *s;
    const char      *object;         /* "rope_scaling", "rope_parameters", …, or NULL: none */
    const char      *under;          /* where members are that `object` does not have; NULL: none */
    bool             by_kind;        /* one of several dictionaries: only theta is read from the top level */
} lm_rope_keys;

/* The result of one reading. */
typedef struct lm_rotation {
    lm_rope_spec spec;
    float        lists[2][512];      /* of longrope */
} lm_rotation;

static const char *member(const char *object, const char *name, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s/%s", object, name);
    return buffer;
}

/* Return the full name of an existing member; NULL: it does not exist. */
static const char *find(const lm_rope_keys *k, const char *name, char *buffer, size_t size)
{
    if (k->object && lm_meta_has(k->s->meta, member(k->object, name, buffer, size)))
        return buffer;
    return k->under && lm_meta_has(k->s->meta, member(k->under, name, buffer, size)) ? buffer : NULL;
}

static lm_status number(const lm_rope_keys *k, const char *name, double min, double max, double fallback,
                        double *out, lm_error *e)
{
    char        buffer[96];
    const char *key = find(k, name, buffer, sizeof buffer);

    if (key)
        return lm_meta_f64(k->s->meta, key, min, max, out, e);
    if (isnan(fallback))
        return lm_wrong(k->s, member(k->object, name, buffer, sizeof buffer), NULL, e,
                        "missing; required by this kind of scaling");
    *out = fallback;
    return LM_OK;
}

static lm_status scaling_type(const lm_rope_keys *k, lm_rope_type *out, lm_error *e)
{
    static const struct {
        const char  *name;
        lm_rope_type type;
    } known[] = {
        { "default", LM_ROPE_DEFAULT }, { "linear", LM_ROPE_LINEAR }, { "dynamic", LM_ROPE_DYNAMIC },
        { "llama3", LM_ROPE_LLAMA3 },   { "yarn", LM_ROPE_YARN },     { "longrope", LM_ROPE_LONGROPE },
        { "su", LM_ROPE_LONGROPE },     { "proportional", LM_ROPE_PROPORTIONAL },
        { "mrope", LM_ROPE_DEFAULT },    /* three positions, which are equal for text */
    };
    char        buffer[96];
    const char *key = find(k, "rope_type", buffer, sizeof buffer);
    lm_view     word;

    *out = LM_ROPE_DEFAULT;
    if (!key)
        key = find(k, "type", buffer, sizeof buffer);
    if (!key) {
        if (find(k, "factor", buffer, sizeof buffer))
            lm_source_warn(k->s, "%s has no effect: there is no rope_type to which it belongs", buffer);
        return LM_OK;
    }
    LM_TRY(lm_meta_string(k->s->meta, key, &word, e));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (lm_view_is(word, known[i].name)) {
            *out = known[i].type;
            return LM_OK;
        }
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "unknown rotary scaling \"%.*s\"",
            (int)(word.size < 64 ? word.size : 64), word.data);
    return lm_fail_in(e, lm_meta_file(k->s->meta));
}

static lm_status factor_list(const lm_rope_keys *k, const char *name, uint32_t n, float *out, lm_error *e)
{
    char          buffer[96];
    const char   *key = find(k, name, buffer, sizeof buffer);
    lm_meta_value list, item;

    if (!key)
        key = member(k->object, name, buffer, sizeof buffer);
    LM_TRY(lm_meta_array(k->s->meta, key, 512, &list, e));
    if (list.a.n != n) {
        lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET,
                "%" PRIu64 " factors where half the rotated dimensions are %u", list.a.n, n);
        return lm_fail_in(e, lm_meta_file(k->s->meta));
    }
    for (uint32_t i = 0; i < n; i++) {
        double f = 0;
        if (lm_meta_at(&list, i, &item))
            f = item.kind == LM_META_FLOAT ? item.f : item.kind == LM_META_UINT ? (double)item.u : 0;
        if (!(f > 0) || !isfinite(f))
            return lm_wrong(k->s, key, NULL, e, "a factor is not a number above 0");
        out[i] = (float)f;
    }
    return LM_OK;
}

/* original_max_position_embeddings at the top level takes precedence, unless there is one dictionary per kind
 * of layer. */
static lm_status trained_length(const lm_rope_keys *k, uint32_t context, uint32_t *out, lm_error *e)
{
    uint32_t on_top = 0;
    double   v;

    LM_TRY(number(k, "original_max_position_embeddings", 1, UINT32_MAX, context, &v, e));
    if (!k->by_kind)
        LM_TRY(lm_read_u32(k->s, "original_max_position_embeddings", NULL, 1, UINT32_MAX, 0, &on_top, e));
    *out = on_top ? on_top : (uint32_t)v;
    return LM_OK;
}

static lm_status read_base(const lm_rope_keys *k, double fallback, double *out, lm_error *e)
{
    char buffer[96];

    if (find(k, "rope_theta", buffer, sizeof buffer))
        return number(k, "rope_theta", 1e-3, 1e30, 0, out, e);
    *out = lm_default_of(k->s, "rope_theta", fallback);
    return lm_meta_has(k->s->meta, "rope_theta") ? lm_meta_f64(k->s->meta, "rope_theta", 1e-3, 1e30, out, e)
                                                 : LM_OK;
}

static lm_status read_yarn(const lm_rope_keys *k, lm_rope_spec *r, lm_error *e)
{
    lm_meta_value v;
    char          buffer[96];

    LM_TRY(number(k, "beta_fast", 1e-6, 1e6, 32, &r->beta_fast, e));
    LM_TRY(number(k, "beta_slow", 1e-6, 1e6, 1, &r->beta_slow, e));
    LM_TRY(number(k, "mscale", 0, 1e6, 0, &r->mscale, e));
    LM_TRY(number(k, "mscale_all_dim", 0, 1e6, 0, &r->mscale_all_dim, e));
    r->truncate = !(k->object &&
                    lm_meta_get(k->s->meta, member(k->object, "truncate", buffer, sizeof buffer), &v) &&
                    v.kind == LM_META_NULL);
    return find(k, "truncate", buffer, sizeof buffer) ? lm_meta_bool(k->s->meta, buffer, &r->truncate, e)
                                                      : LM_OK;
}

/* Read one spelling. `out->spec` must contain the lanes and the defaults for a missing dictionary. */
static lm_status read_rotation(const lm_rope_keys *k, double default_base, uint32_t context, lm_rotation *out,
                               lm_error *e)
{
    lm_rope_spec *r = &out->spec;
    char          buffer[96];

    LM_TRY(scaling_type(k, &r->type, e));
    LM_TRY(read_base(k, default_base, &r->base, e));
    LM_TRY(trained_length(k, context, &r->original_context, e));
    r->max_context = context;

    bool by_ratio = r->type == LM_ROPE_YARN || r->type == LM_ROPE_LONGROPE;
    bool needed   = r->type == LM_ROPE_LINEAR || r->type == LM_ROPE_DYNAMIC || r->type == LM_ROPE_LLAMA3;
    LM_TRY(number(k, "factor", 1e-6, 1e6,
                  by_ratio ? (double)context / r->original_context
                  : needed ? NAN
                           : 1,
                  &r->factor, e));
    if (r->type == LM_ROPE_PROPORTIONAL) {
        LM_TRY(number(k, "partial_rotary_factor", 0, 1, 1, &r->share, e));
        if (!lm_rope_pairs(r))
            return lm_wrong(k->s, member(k->object, "partial_rotary_factor", buffer, sizeof buffer), NULL, e,
                            "leaves no dimension to rotate");
    }
    if (r->type == LM_ROPE_LLAMA3) {
        LM_TRY(number(k, "low_freq_factor", 1e-6, 1e6, NAN, &r->low_freq_factor, e));
        LM_TRY(number(k, "high_freq_factor", 1e-6, 1e6, NAN, &r->high_freq_factor, e));
    }
    if (r->type == LM_ROPE_YARN)
        LM_TRY(read_yarn(k, r, e));
    if (by_ratio)
        LM_TRY(number(k, "attention_factor", 0, 1e6, 0, &r->attention_factor, e));
    if (r->type == LM_ROPE_LONGROPE) {
        LM_TRY(factor_list(k, "short_factor", r->dim / 2, out->lists[0], e));
        LM_TRY(factor_list(k, "long_factor", r->dim / 2, out->lists[1], e));
        r->short_factors = out->lists[0];
        r->long_factors  = out->lists[1];
    }
    return LM_OK;
}

/* Set *out if an object has members: an empty one is treated like null. */
static lm_status has_members(const lm_source *s, const char *key, bool *out, lm_error *e)
{
    lm_meta_value v;

    *out = lm_meta_get(s->meta, key, &v) && v.kind != LM_META_NULL;
    if (*out && v.kind != LM_META_OBJECT)
        return lm_wrong(s, key, NULL, e, "is not an object");
    *out = *out && v.a.n;
    return LM_OK;
}

/* Choose where the rotation of this family's layers is described; for two kinds of layers, that of those
 * without a window. */
static lm_status choose(const lm_source *s, bool two_kinds, lm_rope_keys *k, lm_error *e)
{
    bool scaling, parameters;
    bool full = lm_meta_has(s->meta, "rope_parameters/full_attention"),
         local = lm_meta_has(s->meta, "rope_parameters/sliding_attention");

    *k = (lm_rope_keys){ .s = s };
    LM_TRY(has_members(s, "rope_scaling", &scaling, e));
    LM_TRY(has_members(s, "rope_parameters", &parameters, e));
    if ((full || local) && !two_kinds)
        return lm_no_form(s, full ? "rope_parameters/full_attention" : "rope_parameters/sliding_attention",
                          "rotary parameters per kind of layer are not supported in this family", e);
    if (parameters && !full && !local && two_kinds)
        return lm_no_form(s, "rope_parameters", "does not say which kind of layer it is for", e);
    k->by_kind = two_kinds;
    if (two_kinds)
        k->under = full ? "rope_parameters/full_attention" : NULL;
    else
        k->under = parameters ? "rope_parameters" : NULL;
    k->object = scaling ? "rope_scaling" : k->under;
    if (!scaling)
        k->under = NULL;
    return LM_OK;
}

static bool same_rotation(const lm_rope_spec *a, const lm_rope_spec *b)
{
    if (a->base != b->base || a->type != b->type)
        return false;
    if (a->type == LM_ROPE_DEFAULT)
        return true;
    for (uint32_t i = 0; a->type == LM_ROPE_LONGROPE && i < a->dim / 2; i++)
        if (a->short_factors[i] != b->short_factors[i] || a->long_factors[i] != b->long_factors[i])
            return false;
    return a->factor == b->factor && a->original_context == b->original_context &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->truncate == b->truncate &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim &&
           a->attention_factor == b->attention_factor && a->share == b->share;
}

/* rope_scaling is used; warn if the other dictionary would give a different result. */
static void warn_of_difference(const lm_rope_keys *k, double default_base, uint32_t context,
                               const lm_rotation *taken)
{
    lm_rope_keys other = { .s = k->s, .object = k->under, .by_kind = k->by_kind };
    lm_rotation  r     = { .spec = { .dim = taken->spec.dim, .factor = 1 } };

    if (read_rotation(&other, default_base, context, &r, NULL) != LM_OK ||
        !same_rotation(&r.spec, &taken->spec))
        lm_source_warn(k->s, "rope_scaling and %s differ: rope_scaling is taken, as transformers does",
                       k->under);
}

static lm_status read_hf(const lm_source *s, double default_base, bool two_kinds, lm_config *c, lm_error *e)
{
    lm_rope_keys k;
    lm_rotation  r = { .spec = c->rope };

    LM_TRY(choose(s, two_kinds, &k, e));
    lm_rope_keys taken = k;
    if (!k.by_kind)                  /* the two are only merged in that case */
        taken.under = NULL;
    LM_TRY(read_rotation(&taken, default_base, c->context_length, &r, e));
    if (k.under)
        warn_of_difference(&k, default_base, c->context_length, &r);
    c->rope = r.spec;
    memcpy(c->longrope, r.lists, sizeof r.lists);
    if (r.spec.short_factors) {
        c->rope.short_factors = c->longrope[0];
        c->rope.long_factors  = c->longrope[1];
    }
    return LM_OK;
}

/* ---- GGUF ----
 * The default kind is linear with factor 1. There is no "llama3": that scaling is the tensor
 * rope_freqs.weight. For yarn, ggml multiplies cosines and sines by 1 + 0.1 ln(factor), in addition to the
 * stored attention factor. */

static lm_status gguf_f64(const lm_source *s, const char *name, double min, double max, double fallback,
                          double *out, lm_error *e)
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
        lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "unknown rotary scaling \"%.*s\"",
                (int)(word.size < 64 ? word.size : 64), word.data);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    return LM_OK;
}

/* Phi-3's files have this key even without scaling. */
static lm_status check_trained_length(const lm_source *s, const lm_config *c, lm_error *e)
{
    uint32_t n;

    LM_TRY(lm_read_u32(s, NULL, "rope.scaling.original_context_length", 1, UINT32_MAX, c->context_length, &n,
                       e));
    if (n != c->context_length)
        lm_source_warn(
            s, "rope.scaling.original_context_length %u has no effect: the rotation is not scaled by it", n);
    return LM_OK;
}

/* Only keys that this kind of scaling uses are read; lm_check_gguf_keys warns about others in the file. */
static lm_status read_gguf_yarn(const lm_source *s, lm_rope_spec *r, lm_error *e)
{
    double attention;

    LM_TRY(gguf_f64(s, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32, &r->beta_fast, e));
    LM_TRY(gguf_f64(s, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1, &r->beta_slow, e));
    r->truncate = true;
    /* yarn_attn_factor is the published attention_factor; ggml multiplies its own magnitude by attn_factor */
    LM_TRY(gguf_f64(s, "rope.scaling.yarn_attn_factor", 1e-6, 1e6, 0, &r->attention_factor, e));
    /* 0.1 mscale_all_dim. Files that have it were made from models whose mscale is equal: the two cancel
     * here, and the family applies mscale_all_dim to the scale of the scores. */
    LM_TRY(gguf_f64(s, "rope.scaling.yarn_log_multiplier", 0, 1e5, 0, &r->mscale_all_dim, e));
    r->mscale_all_dim *= 10;
    r->mscale = r->mscale_all_dim;
    LM_TRY(gguf_f64(s, "rope.scaling.attn_factor", 1e-6, 1e6, 0, &attention, e));
    if (attention > 0)
        r->attention_factor = attention * (r->factor > 1 ? 1 + 0.1 * log(r->factor) : 1);
    return LM_OK;
}

static lm_status gguf_factor(const lm_source *s, lm_rope_spec *r, lm_error *e)
{
    if (r->type == LM_ROPE_DEFAULT)
        return LM_OK;
    /* the key in files of 2023 */
    LM_TRY(gguf_f64(s, "rope.scale_linear", 1e-6, 1e6, 1, &r->factor, e));
    LM_TRY(gguf_f64(s, "rope.scaling.factor", 1e-6, 1e6, r->factor, &r->factor, e));
    if (r->type == LM_ROPE_LINEAR && r->factor == 1)
        r->type = LM_ROPE_DEFAULT;
    return LM_OK;
}

static lm_status read_gguf(const lm_source *s, double default_base, lm_config *c, lm_error *e)
{
    lm_rope_spec *r = &c->rope;
    uint32_t      stored_dim;
    char          key[128];

    LM_TRY(lm_read_u32(s, NULL, "rope.dimension_count", 1, 65536, r->dim, &stored_dim, e));
    if (stored_dim != r->dim)
        return lm_no_form(s, lm_gguf_key(s, "rope.dimension_count", key, sizeof key),
                          "differs from the dimensions that this family rotates", e);
    LM_TRY(gguf_f64(s, "rope.freq_base", 1e-3, 1e30, default_base, &r->base, e));
    LM_TRY(gguf_type(s, &r->type, e));
    LM_TRY(gguf_factor(s, r, e));
    r->stored_divisors = lm_has_tensor(s, "rope_freqs.weight");
    r->stored_factors  = lm_has_tensor(s, "rope_factors_long.weight");
    if (r->stored_factors)               /* converters omit the kind: the two lists imply longrope */
        r->type = LM_ROPE_LONGROPE;
    r->max_context = r->original_context = c->context_length;
    if (r->type == LM_ROPE_YARN || r->type == LM_ROPE_LONGROPE)
        LM_TRY(lm_read_u32(s, NULL, "rope.scaling.original_context_length", 1, UINT32_MAX, c->context_length,
                           &r->original_context, e));
    if (r->type == LM_ROPE_YARN)
        return read_gguf_yarn(s, r, e);
    if (r->type != LM_ROPE_LONGROPE)
        return check_trained_length(s, c, e);
    if (r->factor == 1)
        r->factor = (double)c->context_length / r->original_context;
    return gguf_f64(s, "rope.scaling.attn_factor", 1e-6, 1e6, 0, &r->attention_factor, e);
}

static lm_status read_local(const lm_source *s, double default_base, const lm_config *c, lm_rope_spec *out,
                            lm_error *e)
{
    const char  *own = "rope_parameters/sliding_attention";
    lm_rope_keys k   = { .s = s, .object = lm_meta_has(s->meta, own) ? own : NULL };
    lm_rope_type type;
    double       base = default_base;

    if (s->kind != LM_GGUF) {
        LM_TRY(scaling_type(&k, &type, e));
        if (type != LM_ROPE_DEFAULT)
            return lm_no_form(s, k.object,
                              "scales the rotation of layers with a window, which has no form here", e);
        LM_TRY(number(&k, "rope_theta", 1e-3, 1e30, base, &base, e));
    }
    *out = (lm_rope_spec){ .dim = c->rope.dim,
                           .factor = 1,
                           .base = base,
                           .pairing = c->rope.pairing,
                           .permuted = c->rope.permuted,
                           .gguf_permutes = c->rope.gguf_permutes,
                           .original_context = c->context_length,
                           .max_context = c->context_length };
    return LM_OK;
}

static lm_status read_rope(const lm_source *s, uint32_t dim, double default_base, bool two_kinds,
                           lm_config *c, lm_error *e)
{
    lm_rope_spec *r = &c->rope;
    char          key[128];

    *r = (lm_rope_spec){ .dim = dim, .factor = 1 };
    const char *lanes = s->kind == LM_GGUF ? lm_gguf_key(s, "rope.dimension_count", key, sizeof key)
                                           : "head_dim";
    if (dim % 2)
        return lm_wrong(s, "head_dim", "rope.dimension_count", e, "an odd number of dimensions cannot rotate");
    if (dim > 1024)
        return lm_no_form(s, lanes, "more than 1024 rotated dimensions", e);
    LM_TRY(s->kind == LM_GGUF ? read_gguf(s, default_base, c, e) : read_hf(s, default_base, two_kinds, c, e));
    if (r->type == LM_ROPE_PROPORTIONAL && dim != c->head_dim)
        return lm_no_form(s, "rope_parameters",
                          "proportional rotary embeddings of a part of each head are not supported", e);
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

lm_status lm_read_rope(const lm_source *s, uint32_t dim, double default_base, lm_config *c, lm_error *e)
{
    return read_rope(s, dim, default_base, false, c, e);
}

lm_status lm_read_two_ropes(const lm_source *s, uint32_t dim, double default_base, double local_base,
                            lm_config *c, lm_rope_spec *local, lm_error *e)
{
    LM_TRY(read_rope(s, dim, default_base, true, c, e));
    return read_local(s, local_base, c, local, e);
}

/* Read one of the two rotations of config.json. A flat dictionary is that of compressed keys. */
static lm_status read_named(const lm_source *s, bool compress, double base, const lm_config *c,
                            lm_rotation *out, lm_error *e)
{
    const char  *own = compress ? "rope_parameters/compress" : "rope_parameters/main";
    lm_rope_keys k   = { .s = s, .object = lm_meta_has(s->meta, own) ? own : NULL, .by_kind = true };
    bool         scaling, nested = lm_meta_has(s->meta, "rope_parameters/main") &&
                          lm_meta_has(s->meta, "rope_parameters/compress");

    LM_TRY(has_members(s, "rope_scaling", &scaling, e));
    if (compress && !nested)
        k.object = scaling ? "rope_scaling" : "rope_parameters";
    if (!compress && !nested)
        k.object = NULL;
    LM_TRY(read_rotation(&k, base, c->context_length, out, e));
    if (compress && !(nested && lm_meta_has(s->meta, "rope_parameters/compress/rope_theta")))
        out->spec.base = base;
    if (out->spec.type == LM_ROPE_YARN && out->spec.attention_factor == 0 && compress && !nested)
        out->spec.attention_factor = 1;
    if (out->spec.type == LM_ROPE_LONGROPE || out->spec.type == LM_ROPE_PROPORTIONAL)
        return lm_no_form(s, k.object, "this scaling of the rotation has no form here", e);
    return LM_OK;
}

lm_status lm_read_main_and_compress(const lm_source *s, uint32_t dim, double compress_base, lm_config *c,
                                    lm_rope_spec *compress, lm_error *e)
{
    const lm_rotation none = { .spec = { .dim = dim, .factor = 1 } };
    lm_rotation       both[2] = { none, none };

    if (s->kind != LM_GGUF) {
        for (int i = 0; i < 2; i++)
            LM_TRY(read_named(s, i, i ? compress_base : 10000, c, &both[i], e));
        c->rope   = both[0].spec;
        *compress = both[1].spec;
        return LM_OK;
    }
    LM_TRY(lm_read_rope(s, dim, 10000, c, e));
    *compress      = c->rope;
    compress->base = compress_base;
    if (compress->type == LM_ROPE_YARN)
        compress->attention_factor = 1;
    c->rope = (lm_rope_spec){ .dim = dim, .factor = 1, .base = c->rope.base,
                              .original_context = c->context_length, .max_context = c->context_length };
    return LM_OK;
}

lm_status lm_read_temperature(const lm_source *s, const char *hf, double absent, lm_config *c, lm_error *e)
{
    lm_temperature_spec *t = &c->temperature;
    lm_rope_keys         k;
    double               beta;

    t->length = c->rope.original_context;
    if (s->kind == LM_GGUF) {
        LM_TRY(gguf_f64(s, "attention.temperature_scale", 0, 1e3, -1, &beta, e));
        if (beta < 0 && absent > 0)
            lm_source_warn(s, "attention.temperature_scale is missing: %g is taken, as published models have it",
                           absent);
        LM_TRY(lm_read_u32(s, NULL, "rope.scaling.original_context_length", 1, UINT32_MAX, t->length,
                           &t->length, e));
        LM_TRY(lm_read_u32(s, NULL, "attention.temperature_length", 1, UINT32_MAX, t->length, &t->length, e));
        beta = beta < 0 ? absent : beta;
    } else {
        LM_TRY(choose(s, false, &k, e));
        LM_TRY(number(&k, hf, 0, 1e3, NAN, &beta, e));
    }
    t->beta = (float)beta;
    if (beta > 0 && c->rope.type != LM_ROPE_YARN && !s->rope_scaling)
        return lm_no_form(s, s->kind == LM_GGUF ? "rope.scaling.type" : "rope_parameters",
                          "a temperature of the queries without YaRN is not supported", e);
    return LM_OK;
}

bool lm_rope_is_given(const lm_source *s)
{
    bool scaling = false;

    return lm_meta_has(s->meta, "rope_parameters") ||
           (has_members(s, "rope_scaling", &scaling, NULL) == LM_OK && scaling);
}

lm_status lm_read_rotary_lanes_of(const lm_source *s, const char *hf, double fallback, bool local,
                                  const lm_config *c, uint32_t *out, lm_error *e)
{
    const char *key    = local ? "rope_parameters/sliding_attention/partial_rotary_factor"
                               : "rope_parameters/full_attention/partial_rotary_factor";
    const char *gguf   = local ? "rope.dimension_count_swa" : "rope.dimension_count";
    double      factor = fallback;

    if (hf && !lm_meta_has(s->meta, key))
        key = hf;
    if (s->kind == LM_GGUF) {        /* llama.cpp: without a number of their own, as the others */
        LM_TRY(lm_read_u32(s, NULL, gguf, 1, c->head_dim, local ? c->rope.dim : c->head_dim, out, e));
    } else {
        if (lm_meta_has(s->meta, key))
            LM_TRY(lm_meta_f64(s->meta, key, 1e-6, 1, &factor, e));
        *out = (uint32_t)(c->head_dim * factor);
    }
    return *out && *out % 2 == 0
               ? LM_OK
               : lm_wrong(s, key, gguf, e, "makes %u dimensions rotate; an even number is expected", *out);
}

lm_status lm_read_rotary_lanes(const lm_source *s, const char *hf, double fallback, const lm_config *c,
                               uint32_t *out, lm_error *e)
{
    lm_meta_value v;
    bool          scaling, parameters;
    double        factor = fallback;

    if (s->kind == LM_GGUF) {
        if (s->pair && hf)                   /* as the share of the head's lanes */
            s->pair(s->pair_arg, hf, "rope.dimension_count%");
        return lm_read_u32(s, NULL, "rope.dimension_count", 1, c->head_dim, c->head_dim, out, e);
    }
    LM_TRY(has_members(s, "rope_scaling", &scaling, e));
    LM_TRY(has_members(s, "rope_parameters", &parameters, e));
    const char *nested = scaling ? "rope_scaling/partial_rotary_factor"
                                 : "rope_parameters/partial_rotary_factor";

    if (lm_meta_get(s->meta, hf, &v) && v.kind == LM_META_NULL)
        factor = 1;                  /* null: not partial; the class has no default in this case */
    else if (lm_meta_has(s->meta, hf))
        LM_TRY(lm_meta_f64(s->meta, hf, 1e-6, 1, &factor, e));
    if ((scaling || parameters) && lm_meta_has(s->meta, nested))
        LM_TRY(lm_meta_f64(s->meta, nested, 1e-6, 1, &factor, e));
    *out = (uint32_t)(c->head_dim * factor);
    return *out ? LM_OK : lm_wrong(s, hf, NULL, e, "leaves no dimension to rotate");
}
