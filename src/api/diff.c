/* diff.c - lm_diff: run the requested comparisons and report progress. */
#include <string.h>

#include "api/differing.h"
#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "lamina/score.h"

static lm_status check(lm_differing *d, lm_error *e)
{
    const lm_diff_options *o = d->o;

    if (d->a->family != d->b->family)
        return lm_fail(e, LM_USAGE, d->b->source, LM_NO_OFFSET,
                       "a model of the family %s; the other is of %s", d->b->family->name,
                       d->a->family->name);
    if (!o->ids)
        return LM_OK;
    LM_TRY(lm_same_vocabulary(d->a, d->b, e));
    d->chunk = o->chunk ? o->chunk : 256;
    if (d->a->program->context_length && d->chunk > d->a->program->context_length)
        d->chunk = d->a->program->context_length;
    if (d->chunk < 2)
        return lm_fail(e, LM_USAGE, "chunk", LM_NO_OFFSET, "%u tokens; two at least", d->chunk);
    if (o->n < d->chunk)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "%zu tokens; a chunk of %u at least", o->n,
                       d->chunk);
    return LM_OK;
}

static lm_status run(lm_differing *d, lm_error *e)
{
    LM_TRY(check(d, e));
    LM_TRY(lm_pair_new(d->a, d->b, d->o->engine.threads, &d->pair, e));
    d->to = !d->chunk ? 1 : 0.1;
    LM_TRY(lm_differing_tensors(d, e));
    if (!d->chunk)
        return LM_OK;
    d->from = d->to;
    d->to   = 0.3;
    LM_TRY(lm_differing_layers(d, e));
    d->from = d->to;
    d->to   = 1;
    if (d->o->raise && !*d->o->raise) {
        d->r.advice_note = "not requested";
        return LM_OK;
    }
    return lm_differing_advise(d, e);
}

static void end(lm_differing *d)
{
    lm_pair_free(d->pair);
    lm_arena_free(&d->arena);
    lm_free(d);
}

lm_status lm_diff(const lm_model *a, const lm_model *b, const lm_diff_options *o, lm_diff_result *out,
                  lm_error *e)
{
    LM_REQUIRE(e, a && b && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_diff_options defaults;
    lm_differing *d     = lm_alloc_zero(1, sizeof *d);
    double        start = lm_clock_seconds();

    if (!d)
        return lm_fail_memory(e, "a difference", sizeof *d);
    d->a = a;
    d->b = b;
    d->o = o ? o : &defaults;
    lm_status status = run(d, e);
    if (status != LM_OK) {
        end(d);
        return status;
    }
    lm_pair_free(d->pair);
    d->pair      = NULL;
    d->r.seconds = lm_clock_seconds() - start;
    d->r.impl    = d;
    *out         = d->r;
    return LM_OK;
}

void lm_diff_free(lm_diff_result *r)
{
    if (r && r->impl)
        end(r->impl);
    if (r)
        *r = (lm_diff_result){ 0 };
}
