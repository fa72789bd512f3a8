/* scalingwords.c - a rotary scaling as config.json has it, from what a GGUF file stores of it. */
#include "export/keys/scalingwords.h"

#include <math.h>

#include "base/jsontext.h"

static lm_status read_factors(const lm_container *stored, const char *name, float *out, uint32_t n,
                              lm_error *e)
{
    const lm_tensor_info *t = lm_container_find(stored, name);

    if (!t || t->elements != n)
        return lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "missing, or not one per pair of lanes");
    lm_container_unpack(stored, t, 0, n, out);
    return LM_OK;
}

static json_t *list_of(const float *x, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, lm_json_float((double)x[i]));
    return list;
}

/* Return whether a scaling with these parameters has these divisors. */
static bool has_divisors(const lm_rope_spec *s, const float *divisors)
{
    lm_rope_spec plain = *s;
    float        was[512], is[512];

    plain.type = LM_ROPE_DEFAULT;
    lm_rope_frequencies(&plain, 1, NULL, NULL, was);
    lm_rope_frequencies(s, 1, NULL, NULL, is);
    for (uint32_t k = 0; k < s->dim / 2; k++)
        if (!(fabsf(was[k] / divisors[k] - is[k]) <= 4e-7f * is[k]))
            return false;
    return true;
}

/* Solve for parameters when only one frequency is in between: many scalings have these divisors, and any of
 * them is valid. */
static bool solve_one(lm_rope_spec *s, const float *divisors, uint32_t k)
{
    double wavelength = 2 * 3.14159265358979323846 * pow(s->base, 2.0 * k / s->dim);
    double smooth     = (1 / (double)divisors[k] - 1 / s->factor) / (1 - 1 / s->factor);

    for (uint32_t original = 4; original && original <= 1u << 20 && smooth > 0; original *= 2) {
        s->low_freq_factor  = 1;
        s->original_context = original;
        s->high_freq_factor = 1 + (original / wavelength - 1) / smooth;
        if (s->high_freq_factor > 1 && has_divisors(s, divisors))
            return true;
    }
    return false;
}

/* Between the unscaled and the fully scaled frequencies, 1/divisor is linear in 1/wavelength, so two points
 * determine its ends. Only ratios are known, so low_freq_factor is set to 1. */
static bool solve_llama3(lm_rope_spec *s, const float *divisors)
{
    uint32_t half = s->dim / 2, first = half, last = half;
    double   x[2], y[2], factor = s->factor;

    for (uint32_t k = 0; k < half; k++)
        if (divisors[k] > 1.0001f && (double)divisors[k] < factor * 0.9999) {
            first = first == half ? k : first;
            last  = k;
        }
    if (first == last)
        return first < half && solve_one(s, divisors, first);
    for (int i = 0; i < 2; i++) {
        uint32_t k = i ? last : first;
        x[i] = pow(s->base, -2.0 * k / s->dim) / (2 * 3.14159265358979323846);
        y[i] = (1 / (double)divisors[k] - 1 / factor) / (1 - 1 / factor);
    }
    double slope = (y[0] - y[1]) / (x[0] - x[1]), offset = slope * x[0] - y[0];
    if (!(slope > 0) || !(offset > 0))
        return false;
    s->low_freq_factor  = 1;
    s->high_freq_factor = round((1 + 1 / offset) * 1000) / 1000;
    s->original_context = (uint32_t)round(slope / offset);
    return has_divisors(s, divisors);
}

static bool known_llama3(lm_rope_spec *s, const float *divisors)
{
    static const struct { double low, high; uint32_t original; } known[] = {
        { 1, 4, 8192 }, { 1, 1, 8192 }, { 1, 4, 4096 }, { 1, 4, 2048 }, { 1, 4, 16384 }, { 1, 4, 32768 }, { 1, 4, 65536 }, { 1, 4, 131072 },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        s->low_freq_factor  = known[i].low;
        s->high_freq_factor = known[i].high;
        s->original_context = known[i].original;
        if (has_divisors(s, divisors))
            return true;
    }
    return false;
}

/* One divisor for the first pairs, and the others do not rotate. */
static bool is_proportional(lm_rope_spec *s, const float *divisors)
{
    uint32_t half = s->dim / 2, n = 0;

    while (n < half && divisors[n] == divisors[0])
        n++;
    for (uint32_t k = n; k < half; k++)
        if (divisors[k] != LM_ROPE_NEVER)
            return false;
    s->type   = LM_ROPE_PROPORTIONAL;
    s->factor = (double)divisors[0];
    s->share  = (double)n / half;
    return n < half;
}

/* Find the scaling that GGUF stores as divisors. */
static lm_status find_divided(const lm_container *stored, const lm_rope_spec *r, json_t **out, lm_error *e)
{
    lm_rope_spec s    = *r;
    uint32_t     half = s.dim / 2;
    float        divisors[512];

    LM_TRY(read_factors(stored, "rope_freqs.weight", divisors, half, e));
    if (is_proportional(&s, divisors)) {
        *out = json_pack("{s:s, s:o, s:o}", "rope_type", "proportional", "partial_rotary_factor",
                         lm_json_float(s.share), "factor", lm_json_float(s.factor));
        return LM_OK;
    }
    s.type   = LM_ROPE_LLAMA3;
    s.factor = 1;
    for (uint32_t k = 0; k < half; k++)
        s.factor = (double)divisors[k] > s.factor ? (double)divisors[k] : s.factor;
    if (!known_llama3(&s, divisors) && !solve_llama3(&s, divisors))
        return lm_fail(e, LM_UNSUPPORTED, "rope_freqs.weight", LM_NO_OFFSET,
                       "its divisors are of no scaling that config.json has a form for");
    *out = json_pack("{s:s, s:o, s:f, s:f, s:i}", "rope_type", "llama3", "factor", lm_json_float(s.factor),
                     "low_freq_factor", s.low_freq_factor, "high_freq_factor", s.high_freq_factor,
                     "original_max_position_embeddings", (int)s.original_context);
    return LM_OK;
}

static lm_status find_longrope(const lm_container *stored, const lm_rope_spec *r, json_t **out, lm_error *e)
{
    uint32_t half = r->dim / 2;
    float    lists[2][512];

    LM_TRY(read_factors(stored, "rope_factors_short.weight", lists[0], half, e));
    LM_TRY(read_factors(stored, "rope_factors_long.weight", lists[1], half, e));
    *out = json_pack("{s:s, s:o, s:o, s:o}", "rope_type", "longrope", "short_factor", list_of(lists[0], half),
                     "long_factor", list_of(lists[1], half), "factor", lm_json_float(r->factor));
    if (r->attention_factor > 0)
        json_object_set_new(*out, "attention_factor", lm_json_float(r->attention_factor));
    return LM_OK;
}

static json_t *yarn(const lm_rope_spec *r)
{
    json_t *s = json_pack("{s:s, s:o, s:i}", "rope_type", "yarn", "factor", lm_json_float(r->factor),
                          "original_max_position_embeddings", (int)r->original_context);

    if (r->beta_fast != 32)
        json_object_set_new(s, "beta_fast", lm_json_float(r->beta_fast));
    if (r->beta_slow != 1)
        json_object_set_new(s, "beta_slow", lm_json_float(r->beta_slow));
    if (r->mscale_all_dim != 0) {
        json_object_set_new(s, "mscale", lm_json_float(r->mscale));
        json_object_set_new(s, "mscale_all_dim", lm_json_float(r->mscale_all_dim));
    }
    if (r->attention_factor > 0)
        json_object_set_new(s, "attention_factor", lm_json_float(r->attention_factor));
    if (!r->truncate)
        json_object_set_new(s, "truncate", json_false());
    return s;
}

lm_status lm_scaling_words(const lm_container *stored, const lm_rope_spec *r, json_t **out, lm_error *e)
{
    *out = NULL;
    if (r->stored_divisors && r->type == LM_ROPE_DEFAULT)
        return find_divided(stored, r, out, e);
    if (r->type == LM_ROPE_LINEAR)
        *out = json_pack("{s:s, s:o}", "rope_type", "linear", "factor", lm_json_float(r->factor));
    else if (r->type == LM_ROPE_YARN)
        *out = yarn(r);
    else if (r->type == LM_ROPE_LONGROPE)
        return find_longrope(stored, r, out, e);
    return LM_OK;
}
