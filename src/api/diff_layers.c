/* diff_layers.c - run one sequence through both models: where their residual streams diverge, and where the
 * prediction changes. */
#include <string.h>

#include "api/differing.h"
#include "lamina/trace.h"

enum { ROWS = 64 };

typedef struct walking {
    lm_differing *d;
    lm_tracer    *a, *b;
    lm_diff_layer *layers;
    uint64_t      same;
    double        kl;
} walking;

static lm_status open_tracer(const lm_differing *d, const lm_model *m, bool lens, lm_tracer **out,
                             lm_error *e)
{
    lm_trace_options o = { .engine = d->o->engine, .norms = true, .lens = lens };

    o.engine.context    = d->chunk;
    o.engine.sequences  = 1;
    o.engine.max_rows       = d->chunk < ROWS ? d->chunk : ROWS;
    o.engine.max_logits = o.engine.max_rows;
    return lm_tracer_new(m, &o, out, e);
}

static lm_status take_layers(walking *w, const lm_trace_comparison *c, uint32_t chunks, lm_error *e)
{
    lm_differing             *d = w->d;
    lm_trace_layer_difference l;

    for (size_t i = 0; lm_trace_comparison_layer(c, i, &l); i++) {
        if (i == d->r.n_layers) {
            lm_diff_layer *more = lm_arena_new(&d->arena, i + 1, lm_diff_layer);
            if (!more)
                return lm_fail_memory(e, "layers", i * sizeof *more);
            for (size_t k = 0; k < i; k++)
                more[k] = w->layers[k];
            more[i]     = (lm_diff_layer){ .path = lm_arena_strdup(&d->arena, l.path), .layer = l.layer };
            w->layers   = more;
            d->r.layers = more;
            d->r.n_layers++;
        }
        w->layers[i].relative += l.relative / chunks;
        w->layers[i].added += l.added / chunks;
    }
    return LM_OK;
}

static void take_rows(walking *w, const lm_trace_comparison *c, uint32_t chunk)
{
    lm_diff_result     *r = &w->d->r;
    lm_trace_difference x;

    for (size_t i = 0; lm_trace_comparison_row(c, i, &x); i++) {
        w->kl += x.kl;
        r->max_kl = x.kl > r->max_kl ? x.kl : r->max_kl;
        r->tokens++;
        w->same += x.a == x.b;
        if (x.a == x.b || r->flips)
            continue;
        r->flips         = true;
        r->flip_chunk    = chunk;
        r->flip_position = x.position;
    }
}

static lm_status walk(walking *w, uint32_t chunks, lm_error *e)
{
    lm_differing *d = w->d;

    for (uint32_t i = 0; i < chunks; i++) {
        lm_trace_comparison *c;
        LM_TRY(lm_differing_report(d, (double)i / chunks, "layers", e));
        LM_TRY(lm_trace_compare(w->a, w->b, d->o->ids + (size_t)i * d->chunk, d->chunk, &c, e));
        take_rows(w, c, i);
        lm_status status = take_layers(w, c, chunks, e);
        lm_trace_comparison_free(c);
        LM_TRY(status);
    }
    d->r.mean_kl  = w->kl / (double)d->r.tokens;
    d->r.same_top = (double)w->same / (double)d->r.tokens;
    return LM_OK;
}

/* ---- the layer that changes the prediction ---- */

static lm_status read_to(const lm_differing *d, lm_tracer *t, lm_trace_row *out, lm_error *e)
{
    const lm_token *ids = d->o->ids + (size_t)d->r.flip_chunk * d->chunk;

    LM_TRY(lm_tracer_look(t, d->r.flip_position, e));
    LM_TRY(lm_tracer_read(t, ids, d->r.flip_position + 1, e));
    return lm_tracer_row(t, d->r.flip_position, out, e);
}

/* Compare the lenses after the embedding and after each layer. */
static void find_layer(lm_diff_result *r, const lm_trace_row *x, const lm_trace_row *y)
{
    bool found = false, settled = false;

    for (size_t i = 0; i < x->n_lens && i < y->n_lens; i++) {
        const lm_trace_lens *a = &x->lens[i], *b = &y->lens[i];
        if (!a->n_top || !b->n_top || (a->part != LM_TRACE_LAYER && a->part != LM_TRACE_EMBEDDING))
            continue;
        bool other = a->top[0].id != b->top[0].id;
        if (other && !found)
            r->flip_layer = a->layer;
        found |= other;
        if (other && !settled)
            r->flip_settled = a->layer;
        settled = other;
    }
}

static lm_status look_at_flip(lm_differing *d, lm_error *e)
{
    lm_tracer   *a = NULL, *b = NULL;
    lm_trace_row x, y;
    lm_status    status = open_tracer(d, d->a, true, &a, e);

    if (status == LM_OK)
        status = open_tracer(d, d->b, true, &b, e);
    if (status == LM_OK)
        status = read_to(d, a, &x, e);
    if (status == LM_OK)
        status = read_to(d, b, &y, e);
    if (status == LM_OK)
        find_layer(&d->r, &x, &y);
    lm_tracer_free(a);
    lm_tracer_free(b);
    return status;
}

lm_status lm_differing_layers(lm_differing *d, lm_error *e)
{
    walking   w      = { .d = d };
    uint32_t  max   = d->o->chunks ? d->o->chunks : 4;
    uint32_t  chunks = d->o->n / d->chunk < max ? (uint32_t)(d->o->n / d->chunk) : max;
    lm_status status = open_tracer(d, d->a, false, &w.a, e);

    if (status == LM_OK)
        status = open_tracer(d, d->b, false, &w.b, e);
    if (status == LM_OK)
        status = walk(&w, chunks, e);
    lm_tracer_free(w.a);
    lm_tracer_free(w.b);
    if (status == LM_OK && d->r.flips)
        status = look_at_flip(d, e);
    return status;
}
