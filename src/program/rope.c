/* rope.c - rotary frequencies and their scalings, computed as in transformers: in double precision, stored as
 * float32. */
#include "program/rope.h"

#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

static double inverse_frequency(double base, uint32_t i, uint32_t dim)
{
    return 1.0 / pow(base, 2.0 * i / dim);
}

/* Return the base for a forward pass of `length` positions (dynamic NTK scaling). */
static double dynamic_base(const lm_rope_spec *s, uint32_t length)
{
    double trained = s->max_context;

    if (trained <= 0 || length <= s->max_context)
        return s->base;
    return s->base * pow(s->factor * length / trained - (s->factor - 1), s->dim / (s->dim - 2.0));
}

static double llama3(const lm_rope_spec *s, double inv)
{
    double wavelength = 2 * PI / inv;
    double original   = s->original_context;

    if (wavelength < original / s->high_freq_factor)
        return inv;
    if (wavelength >= original / s->low_freq_factor)     /* the factors may be equal: nothing is in between */
        return inv / s->factor;
    double smooth = (original / wavelength - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * inv / s->factor + smooth * inv;
}

/* Return the lane pair, as a fraction, whose rotation makes `turns` turns over the trained positions. */
static double yarn_lane(const lm_rope_spec *s, double turns)
{
    return s->dim * log(s->original_context / (turns * 2 * PI)) / (2 * log(s->base));
}

static void yarn(const lm_rope_spec *s, float *inv)
{
    double low  = yarn_lane(s, s->beta_fast);
    double high = yarn_lane(s, s->beta_slow);

    if (s->truncate) {
        low  = floor(low);
        high = ceil(high);
    }
    low  = fmax(low, 0);
    high = fmin(high, s->dim - 1.0);
    if (low == high)
        high += 0.001;
    for (uint32_t i = 0; i < s->dim / 2; i++) {
        double plain = inverse_frequency(s->base, i, s->dim);
        double ramp  = fmin(fmax((i - low) / (high - low), 0), 1);
        inv[i]       = (float)(plain / s->factor * ramp + plain * (1 - ramp));
    }
}

static double yarn_magnitude(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double attention_factor(const lm_rope_spec *s)
{
    if (s->type == LM_ROPE_YARN) {
        if (s->attention_factor > 0)
            return s->attention_factor;
        if (s->mscale != 0 && s->mscale_all_dim != 0)
            return yarn_magnitude(s->factor, s->mscale) / yarn_magnitude(s->factor, s->mscale_all_dim);
        return yarn_magnitude(s->factor, 1);
    }
    if (s->type == LM_ROPE_LONGROPE) {
        if (s->attention_factor > 0)
            return s->attention_factor;
        return s->factor <= 1 ? 1 : sqrt(1 + log(s->factor) / log(s->original_context));
    }
    return 1;
}

bool lm_rope_depends_on_length(const lm_rope_spec *s)
{
    return s->type == LM_ROPE_DYNAMIC || s->type == LM_ROPE_LONGROPE;
}

bool lm_rope_is_long(const lm_rope_spec *s, uint32_t length)
{
    return s->type == LM_ROPE_LONGROPE && length > s->original_context;
}

uint32_t lm_rope_pairs(const lm_rope_spec *s)
{
    return s->type == LM_ROPE_PROPORTIONAL ? (uint32_t)(s->share * s->dim / 2) : s->dim / 2;
}

float lm_rope_frequencies(const lm_rope_spec *s, uint32_t length, const float *divisors, const float *factors,
                          float *inv)
{
    uint32_t     half = s->dim / 2;
    double       base = s->type == LM_ROPE_DYNAMIC ? dynamic_base(s, length) : s->base;
    const float *each = factors;

    if (s->type == LM_ROPE_LONGROPE && !each)
        each = lm_rope_is_long(s, length) ? s->long_factors : s->short_factors;
    if (s->type == LM_ROPE_YARN) {
        yarn(s, inv);
    } else {
        for (uint32_t i = 0; i < half; i++) {
            double plain = inverse_frequency(base, i, s->dim);
            if (s->type == LM_ROPE_PROPORTIONAL)
                plain = i < lm_rope_pairs(s) ? plain / s->factor : 0;
            else if (s->type == LM_ROPE_LINEAR)
                plain /= s->factor;
            else if (s->type == LM_ROPE_LLAMA3)
                plain = llama3(s, plain);
            else if (each)
                plain /= each[i];
            inv[i] = (float)plain;
        }
    }
    for (uint32_t i = 0; divisors && i < half; i++)
        inv[i] /= divisors[i];
    return (float)attention_factor(s);
}

const char *lm_rope_type_name(lm_rope_type t)
{
    switch (t) {
    case LM_ROPE_LINEAR:
        return "linear";
    case LM_ROPE_DYNAMIC:
        return "dynamic";
    case LM_ROPE_LLAMA3:
        return "llama3";
    case LM_ROPE_YARN:
        return "yarn";
    case LM_ROPE_LONGROPE:
        return "longrope";
    case LM_ROPE_PROPORTIONAL:
        return "proportional";
    case LM_ROPE_DEFAULT:
        break;
    }
    return "default";
}
