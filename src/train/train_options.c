/* train_options.c - options of a training run: their defaults, and which values are possible. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "train/run.h"

/* ---- values that are not 0 by default ---- */

#define O(field) offsetof(lm_train_options, field)

static const struct { size_t at; double value; } numbers[] = {
    { O(warmup), 0.03 }, { O(clip), 1 }, { O(beta1), 0.9 }, { O(beta2), 0.999 }, { O(epsilon), 1e-8 }, { O(valid_share), 0.05 },
    { O(rate_end), -1 },
};

static const struct {
    size_t at;
    uint32_t value;
} counts[] = { { O(rank), 16 }, { O(epochs), 1 }, { O(accumulate), 1 } };

enum { NUMBERS = sizeof numbers / sizeof *numbers, COUNTS = sizeof counts / sizeof *counts };

/* Make the numbers literal. */
static lm_train_options fill(lm_train_options o)
{
    if (o.literal)
        return o;
    for (size_t i = 0; i < NUMBERS; i++) {
        double *x = (double *)(void *)((char *)&o + numbers[i].at);
        *x        = *x == 0 ? numbers[i].value : *x;
    }
    for (size_t i = 0; i < COUNTS; i++) {
        uint32_t *n = (uint32_t *)(void *)((char *)&o + counts[i].at);
        *n          = *n ? *n : counts[i].value;
    }
    o.literal = true;
    return o;
}

lm_train_options lm_train_defaults(void)
{
    return fill((lm_train_options){ 0 });
}

lm_train_options lm_train_resolve(const lm_train_options *given)
{
    lm_train_options o = given ? fill(*given) : lm_train_defaults();

    o.rate       = o.rate == 0 ? (o.full ? 2e-5 : 2e-4) : o.rate;
    o.rate_end   = o.rate_end < 0 ? o.rate / 10 : o.rate_end;
    o.alpha      = o.alpha == 0 ? 2.0 * o.rank : o.alpha;
    o.accumulate = o.accumulate ? o.accumulate : 1;
    return o;
}

/* ---- possible values ---- */

static lm_status check_rates(const lm_train_options *o, lm_error *e)
{
    const struct { const char *name; double x; } at_least_0[] = {
        { "rate_end", o->rate_end }, { "warmup", o->warmup }, { "clip", o->clip }, { "weight_decay", o->weight_decay },
    };

    if (!(o->rate > 0) || !isfinite(o->rate))
        return lm_fail(e, LM_USAGE, "rate", LM_NO_OFFSET, "must be above 0");
    for (size_t i = 0; i < sizeof at_least_0 / sizeof *at_least_0; i++)
        if (!(at_least_0[i].x >= 0))
            return lm_fail(e, LM_USAGE, at_least_0[i].name, LM_NO_OFFSET, "must be at least 0");
    return LM_OK;
}

lm_status lm_train_check(const lm_train_options *o, const char *data, const char *folder, lm_error *e)
{
    if (!o->full && (o->rank < 1 || o->rank > 1024))
        return lm_fail(e, LM_USAGE, "rank", LM_NO_OFFSET, "must be in 1 ... 1024");
    if (!(o->alpha > 0) || !isfinite(o->alpha))
        return lm_fail(e, LM_USAGE, "alpha", LM_NO_OFFSET, "must be above 0");
    if (!(o->dropout >= 0 && o->dropout < 1))
        return lm_fail(e, LM_USAGE, "dropout", LM_NO_OFFSET, "must be at least 0 and below 1");
    LM_TRY(check_rates(o, e));
    if (!data == !o->ids_file)
        return lm_fail(e, LM_USAGE, "training data", LM_NO_OFFSET,
                       data ? "data and ids cannot be combined" : "is missing");
    if (!folder && !o->dry_run && !o->gradients)
        return lm_fail(e, LM_USAGE, "folder", LM_NO_OFFSET, "is missing: where to write to");
    if (folder && strlen(folder) > LM_TRAIN_FOLDER)
        return lm_fail(e, LM_USAGE, "folder", LM_NO_OFFSET, "the path has %zu bytes; %d are possible",
                       strlen(folder), LM_TRAIN_FOLDER);
    if (o->full && o->dropout > 0)
        return lm_fail(e, LM_USAGE, "dropout", LM_NO_OFFSET, "is of adapters");
    if (o->full && o->init_from)
        return lm_fail(e, LM_USAGE, "init_from", LM_NO_OFFSET, "is of adapters");
    return LM_OK;
}
