/* sampler_options.c - resolve the numbers of lm_sampler_options (0 is the default, unless they are literal)
 * and check their ranges. */
#include <stddef.h>

#include "base/error.h"
#include "runtime/sample/sampler.h"

/* ---- values that are not 0 by default ---- */

#define O(field) offsetof(lm_sampler_options, field)

static const struct { size_t at; float value; } numbers[] = {
    { O(temperature), 0.8f }, { O(dynatemp_exponent), 1 }, { O(top_p), 0.95f }, { O(min_p), 0.05f }, { O(typical_p), 1 },
    { O(xtc_threshold), 0.1f }, { O(repeat_penalty), 1 }, { O(dry_base), 1.75f }, { O(mirostat_tau), 5 }, { O(mirostat_eta), 0.1f },
};

static const struct { size_t at; int32_t value; } counts[] = {
    { O(top_k), 40 }, { O(dry_allowed_length), 2 }, { O(repeat_last_n), 64 }, { O(dry_penalty_last_n), -1 },
};

enum { NUMBERS = sizeof numbers / sizeof *numbers, COUNTS = sizeof counts / sizeof *counts };

static float *number(lm_sampler_options *o, size_t i)
{
    return (float *)(void *)((char *)o + numbers[i].at);
}

static int32_t *count(lm_sampler_options *o, size_t i)
{
    return (int32_t *)(void *)((char *)o + counts[i].at);
}

/* Make the numbers literal. */
static lm_sampler_options fill(lm_sampler_options o)
{
    if (o.literal)
        return o;
    for (size_t i = 0; i < NUMBERS; i++)
        if (*number(&o, i) == 0)
            *number(&o, i) = numbers[i].value;
    for (size_t i = 0; i < COUNTS; i++)
        if (*count(&o, i) == 0)
            *count(&o, i) = counts[i].value;
    o.literal = true;
    return o;
}

lm_sampler_options lm_sampler_defaults(void)
{
    return fill((lm_sampler_options){ .top_n_sigma = -1 });
}

lm_sampler_options lm_sampler_resolve(const lm_sampler_options *given)
{
    lm_sampler_options o = fill(*given);

    if (o.greedy || o.temperature < 0)
        o.temperature = 0;
    return o;
}

/* ---- valid ranges ---- */

static lm_status within(const char *name, double value, double min, double max, lm_error *e)
{
    if (value >= min && value <= max)
        return LM_OK;
    return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "%g is outside %g ... %g", value, min, max);
}

static lm_status check_ranges(const lm_sampler_options *o, lm_error *e)
{
    const double big = 1e6;
    const struct { const char *name; double value, min, max; } ranges[] = {
        { "temperature",        (double)o->temperature,        -big, big },
        { "dynatemp_range",     (double)o->dynatemp_range,        0, big },
        { "dynatemp_exponent",  (double)o->dynatemp_exponent,     0, big },
        { "top_p",              (double)o->top_p,                 0, 1   },
        { "min_p",              (double)o->min_p,                 0, 1   },
        { "typical_p",          (double)o->typical_p,             0, 1   },
        { "top_n_sigma",        (double)o->top_n_sigma,        -big, big },
        { "xtc_probability",    (double)o->xtc_probability,       0, 1   },
        { "xtc_threshold",      (double)o->xtc_threshold,         0, 1   },
        { "repeat_penalty",     (double)o->repeat_penalty,     1e-6, big },
        { "presence_penalty",   (double)o->presence_penalty,   -big, big },
        { "frequency_penalty",  (double)o->frequency_penalty,  -big, big },
        { "repeat_last_n",      (double)o->repeat_last_n,        -1, (double)LM_HISTORY_MAX },
        { "dry_multiplier",     (double)o->dry_multiplier,        0, big },
        { "dry_base",           (double)o->dry_base, o->dry_multiplier != 0 ? 1 : -big, big },
        { "dry_allowed_length", (double)o->dry_allowed_length,    0, (double)LM_HISTORY_MAX },
        { "dry_penalty_last_n", (double)o->dry_penalty_last_n,   -1, (double)LM_HISTORY_MAX },
        { "mirostat_tau",       (double)o->mirostat_tau,          0, big },
        { "mirostat_eta",       (double)o->mirostat_eta,          0, 1   },
    };

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        LM_TRY(within(ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max, e));
    if (o->mirostat != 0 && o->mirostat != 2)
        return lm_fail(e, LM_USAGE, "mirostat", LM_NO_OFFSET, "%d is neither 0 (off) nor 2", o->mirostat);
    return LM_OK;
}

lm_status lm_sampler_check(const lm_sampler_options *o, lm_error *e)
{
    LM_REQUIRE(e, o);
    LM_CHECK_RESERVED(e, o);
    lm_sampler_options literal = fill(*o);

    return check_ranges(&literal, e);
}
