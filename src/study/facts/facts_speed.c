/* facts_speed.c - predicted speed: the plan compared with the measured or published peak rates. */
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "study/facts/predict.h"

bool lm_peaks_of(const lm_facts *f, lm_peaks *out)
{
    const lm_limits *l = lm_limits_usable(f->s.limits);

    *out = f->s.device   ? lm_peaks_published(f->s.device)
           : l           ? lm_peaks_measured(l)
                         : (lm_peaks){ 0 };
    return f->s.device || l;
}

static lm_peaks peaks_of(const lm_facts *f)
{
    lm_peaks peaks;

    lm_peaks_of(f, &peaks);
    return peaks;
}

/* Return the origin of the peaks: measured here, or published by the device's maker. */
static lm_origin origin_of(const lm_facts *f)
{
    return f->s.device ? LM_FROM_PUBLISHED : LM_FROM_MEASURE;
}

static void add_prediction(lm_facts *f, lm_fact *g, const lm_prediction *x)
{
    if (x->known) {
        lm_add_number(g, "tokens_per_second", x->tokens_per_second, LM_UNIT_TOKENS_PER_SECOND, origin_of(f),
                      "at most: each step as slow as its reading or its arithmetic");
        lm_add_number(g, "seconds", x->seconds, LM_UNIT_SECONDS, origin_of(f), NULL);
        lm_add_text(g, "limited_by", x->limited_by, origin_of(f), "what takes longest");
    }
    lm_add_wide(g, "bytes", x->bytes, LM_UNIT_BYTES, LM_FROM_PLAN, "weights and cache read");
    lm_add_wide(g, "operations", x->operations, LM_UNIT_FLOPS, LM_FROM_PLAN, "products made");
}

/* Return the subject's plan (argument 0), or one for weights of the precision lm_precision_at(argument -
 * 1). */
static const lm_plan *plan_of(lm_facts *f, uint64_t argument)
{
    const lm_plan  *p     = NULL;
    const lm_dtype *types = argument ? lm_types_as(f, argument - 1) : NULL;

    if (argument && !types)
        return NULL;
    return f->s.plan(f->s.arg, types, f->s.context, f->s.batch, &p, NULL) == LM_OK ? p : NULL;
}

static void fill_prompt(lm_facts *f, lm_fact *g)
{
    const lm_plan *p     = plan_of(f, g->impl.argument);
    lm_peaks       peaks = peaks_of(f);
    lm_prediction  x;
    uint64_t       tokens = g->name ? 512 : g->index;

    if (!p || !tokens)
        return;
    lm_predict_prompt(p, &peaks, tokens, &x);
    lm_add_count(g, "tokens", tokens, LM_UNIT_TOKENS, LM_FROM_REQUEST, "of the prompt");
    add_prediction(f, g, &x);
}

static void fill_generation(lm_facts *f, lm_fact *g)
{
    const lm_plan *p     = plan_of(f, g->impl.argument);
    lm_peaks       peaks = peaks_of(f);
    lm_prediction  x;
    uint64_t       context = g->name ? 512 : g->index;

    if (!p || !context)
        return;
    lm_predict_token(p, &peaks, context, f->s.batch, &x);
    lm_add_count(g, "context", context, LM_UNIT_TOKENS, LM_FROM_REQUEST, "positions held by each sequence");
    add_prediction(f, g, &x);
}

static void fill_as_one(lm_facts *f, lm_fact *g)
{
    (void)f;
    lm_add_group(g, "prompt", fill_prompt, g->impl.argument);
    lm_add_group(g, "generation", fill_generation, g->impl.argument);
}

static void fill_as(lm_facts *f, lm_fact *g)
{
    for (size_t i = 0; lm_precision_at(i); i++)
        if (!(lm_precision_at(i)->bits > 0)) {
            lm_fact *one     = lm_add_group(g, lm_precision_at(i)->name, fill_as_one, i + 1);
            one->impl.silent = !lm_precision_shown(lm_precision_at(i), f->s.program);
        }
}

static void add_limits(const lm_facts *f, lm_fact *g)
{
    const lm_peaks peaks = peaks_of(f);
    lm_origin      o     = origin_of(f);

    lm_add_number(g, "memory", peaks.memory, LM_UNIT_BYTES_PER_SECOND, o, "reading");
    lm_add_number(g, "int8", peaks.int8, LM_UNIT_FLOPS_PER_SECOND, o, "operations of 8 bits");
    if (f->s.device)
        lm_add_number(g, "f16", peaks.f16, LM_UNIT_FLOPS_PER_SECOND, o, NULL);
    lm_add_number(g, "bf16", peaks.bf16, LM_UNIT_FLOPS_PER_SECOND, o, NULL);
    lm_add_number(g, "f32", peaks.f32, LM_UNIT_FLOPS_PER_SECOND, o, NULL);
}

void lm_fill_speed(lm_facts *f, lm_fact *g)
{
    const lm_limits *l = f->s.limits;

    lm_add_bool(g, "measured", l != NULL && !f->s.device, LM_FROM_MEASURE, "this machine has been measured");
    if (f->s.device)
        lm_add_text(g, "device", f->s.device->title, LM_FROM_REQUEST, f->s.device->source);
    else if (!l)
        return;
    if (!f->s.device) {
        lm_add_text(g, "level", l->level, LM_FROM_MEASURE, "instruction set");
        lm_add_count(g, "threads", l->threads, LM_UNIT_NONE, LM_FROM_MEASURE, NULL);
        lm_add_bool(g, "too_low", !lm_limits_usable(l), LM_FROM_MEASURE,
                    "other work ran beside the measurement, and nothing better is known: no speed is predicted");
        if (!lm_limits_usable(l))
            return;
    }
    add_limits(f, g);
    lm_add_group(g, "prompt", fill_prompt, 0);
    lm_add_group(g, "generation", fill_generation, 0);
    lm_add_table(g, "prompt_of", fill_prompt, 0);
    lm_add_table(g, "generation_at", fill_generation, 0);
    lm_hide_fact(lm_add_group(g, "as", fill_as, 0));
}
