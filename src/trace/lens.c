/* lens.c - the logit lens: apply the end of the model to the residual stream after each layer. The end is a
 * separate program, planned and run like any other, with the points of a row as its rows. At the last point
 * it gives the model's logits bit for bit. */
#include <math.h>

#include "trace/tracer.h"

static bool is_shown(const lm_tracer *t, const lm_trace_point *x)
{
    return t->o.lens_parts || x->part == LM_TRACE_LAYER || x->part == LM_TRACE_EMBEDDING;
}

/* Return KL(p || softmax(logits)), p with its logits and their log-sum-exp. */
static double divergence(const float *p, const float *of_p, double lse_p, const float *logits, double lse,
                         uint32_t n)
{
    double sum = 0, mass = 0;

    for (uint32_t i = 0; i < n; i++)
        if (p[i] > 0) {
            sum += (double)p[i] * ((double)of_p[i] - (double)logits[i]);
            mass += (double)p[i];
        }
    return fmax(0, sum + mass * (lse - lse_p));
}

static void fill(lm_tracer *t, const lm_trace_record *r, const float *last, const float *logits,
                 lm_trace_lens *out, lm_trace_choice *top)
{
    uint32_t n = t->p->n_vocab, best;
    double   entropy, lse = lm_predicted(&t->g->kernels, logits, n, t->scratch + n, &entropy, &best);

    out->rank  = lm_predicted_rank(logits, n, r->row.token);
    out->p     = exp((double)logits[r->row.token] - lse);
    out->kl    = divergence(last, r->logits, r->lse, logits, lse, n);
    out->n_top = t->o.lens < n ? t->o.lens : n;
    out->top   = top;
    lm_predicted_top(logits, n, lse, top, out->n_top);
}

/* Run the `n` points listed in `which`. */
static lm_status run(lm_tracer *t, const lm_trace_record *r, const uint32_t *which, size_t n, float *given,
                     lm_row *rows, lm_error *e)
{
    uint32_t width = lm_trace_width(t);

    for (size_t i = 0; i < n; i++) {
        const float *x = r->states + (size_t)which[i] * width;
        for (uint32_t k = 0; k < width; k++)
            given[i * width + k] = x[k];
        rows[i] = (lm_row){ 0, 0, (uint32_t)i, true };
    }
    LM_TRY(lm_engine_truncate(t->lens, 0, 0, e));
    t->lens->tail_input = given;
    return lm_engine_step(t->lens, rows, n, e);
}

lm_status lm_trace_lens_of(lm_tracer *t, lm_trace_record *r, lm_error *e)
{
    size_t           max  = t->map.n_points, shown = 0, k = t->o.lens;
    lm_trace_lens   *out   = lm_arena_new(&r->arena, max + 1, lm_trace_lens);
    lm_trace_choice *top   = lm_arena_new(&r->arena, max * k + 1, lm_trace_choice);
    uint32_t        *which = lm_arena_new(&r->arena, max + 1, uint32_t), best;
    float           *given = lm_arena_new(&r->arena, (size_t)t->lens_rows * lm_trace_width(t), float);
    lm_row          *rows  = lm_arena_new(&r->arena, t->lens_rows, lm_row);
    double           entropy;

    if (!out || !top || !which || !given || !rows)
        return lm_fail_memory(e, "the lens", max * sizeof *out);
    for (uint32_t i = 0; i < max; i++)
        if (is_shown(t, &t->map.points[i]))
            which[shown++] = i;
    lm_predicted(&t->g->kernels, r->logits, t->p->n_vocab, t->scratch, &entropy, &best);
    for (size_t at = 0, n; at < shown; at += n) {
        n = shown - at < t->lens_rows ? shown - at : t->lens_rows;
        LM_TRY(run(t, r, which + at, n, given, rows, e));
        for (size_t i = 0; i < n; i++) {
            const lm_trace_point *x = &t->map.points[which[at + i]];
            out[at + i] = (lm_trace_lens){ .path = x->path, .layer = x->layer, .part = x->part };
            fill(t, r, t->scratch, lm_engine_logits(t->lens, i), &out[at + i], top + (at + i) * k);
        }
    }
    r->row.lens   = out;
    r->row.n_lens = shown;
    return LM_OK;
}
