/* versus.c - run one sequence through two tracers chunk by chunk: where two models, or a model with and
 * without interventions, diverge. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "trace/tracer.h"

struct lm_trace_comparison {
    lm_trace_difference       *rows;
    size_t                     n;
    lm_trace_layer_difference *layers;
    size_t                     n_layers;
    float                     *p, *q;    /* [n_vocab] */
    lm_arena                   arena;
};

static bool same_layers(const lm_tracer *a, const lm_tracer *b)
{
    return a->o.norms && b->o.norms && a->map.n_points == b->map.n_points &&
           lm_trace_width(a) == lm_trace_width(b);
}

static lm_status make_room(lm_trace_comparison *c, lm_tracer *a, lm_tracer *b, size_t n, lm_error *e)
{
    c->rows   = lm_arena_new(&c->arena, n + 1, lm_trace_difference);
    c->layers = lm_arena_new(&c->arena, a->map.n_points + 1, lm_trace_layer_difference);
    c->p      = lm_arena_new(&c->arena, a->p->n_vocab, float);
    c->q      = lm_arena_new(&c->arena, a->p->n_vocab, float);
    if (!c->rows || !c->layers || !c->p || !c->q)
        return lm_fail_memory(e, "a comparison", n);
    c->n = n;
    for (size_t i = 0; same_layers(a, b) && i < a->map.n_points; i++) {
        const lm_trace_point *x = &a->map.points[i];
        if (x->part != LM_TRACE_LAYER && x->part != LM_TRACE_EMBEDDING)
            continue;
        char *path = lm_arena_strdup(&c->arena, x->path);
        if (!path)
            return lm_fail_memory(e, "a comparison", i);
        c->layers[c->n_layers++] = (lm_trace_layer_difference){ .path = path, .layer = x->layer };
    }
    return LM_OK;
}

static void compare_row(lm_trace_comparison *c, lm_tracer *a, lm_tracer *b, const float *x, const float *y,
                        lm_token next, lm_trace_difference *d)
{
    uint32_t n = a->p->n_vocab, best[2];
    double   entropy, lse[2], kl = 0;

    lse[0] = lm_predicted(&a->g->kernels, x, n, c->p, &entropy, &best[0]);
    lse[1] = lm_predicted(&b->g->kernels, y, n, c->q, &entropy, &best[1]);
    for (uint32_t i = 0; i < n; i++)
        if (c->p[i] > 0)
            kl += (double)c->p[i] * (((double)x[i] - lse[0]) - ((double)y[i] - lse[1]));
    d->a   = (lm_token)best[0];
    d->b   = (lm_token)best[1];
    d->p_a = c->p[best[0]];
    d->p_b = c->q[best[1]];
    d->kl  = fmax(0, kl);
    if (next < 0)
        return;
    d->surprise_a = (lse[0] - (double)x[next]) / M_LN2;
    d->surprise_b = (lse[1] - (double)y[next]) / M_LN2;
}

/* Compare the streams of a row layer by layer; `added`: how much the difference grew since the previous
 * layer. */
static void compare_layers(lm_trace_comparison *c, lm_tracer *a, lm_tracer *b, size_t i)
{
    uint32_t width = lm_trace_width(a);
    const float *px = NULL, *py = NULL;
    size_t   at = 0;

    for (size_t k = 0; k < a->map.n_points && at < c->n_layers; k++) {
        const lm_trace_point *point = &a->map.points[k];
        const float *x = lm_engine_value(a->g, point->value, i),
                    *y = lm_engine_value(b->g, b->map.points[k].value, i);
        double                difference = 0, length = 0, moved = 0;
        if (point->part != LM_TRACE_LAYER && point->part != LM_TRACE_EMBEDDING)
            continue;
        for (uint32_t l = 0; x && y && l < width; l++) {
            double d = (double)y[l] - (double)x[l], was = px ? (double)py[l] - (double)px[l] : 0;
            difference += d * d;
            moved += (d - was) * (d - was);
            length += (double)x[l] * (double)x[l];
        }
        if (length > 0) {
            c->layers[at].relative += sqrt(difference / length) / (double)c->n;
            c->layers[at].added += sqrt(moved / length) / (double)c->n;
        }
        at++;
        px = x;
        py = y;
    }
}

static lm_status compare_chunk(lm_trace_comparison *c, lm_tracer *a, lm_tracer *b, const lm_token *ids,
                               size_t at, size_t n, lm_error *e)
{
    LM_TRY(lm_tracer_read(a, ids + at, n, e));
    LM_TRY(lm_tracer_read(b, ids + at, n, e));
    for (size_t i = 0; i < n; i++) {
        lm_trace_difference *d = &c->rows[at + i];
        d->position            = (uint32_t)(at + i);
        compare_row(c, a, b, lm_engine_logits(a->g, i), lm_engine_logits(b->g, i),
                    at + i + 1 < c->n ? ids[at + i + 1] : -1, d);
        if (c->n_layers)
            compare_layers(c, a, b, i);
    }
    return LM_OK;
}

static size_t rows_at_once(const lm_tracer *t)
{
    return lm_engine_max_rows(t->g) < lm_engine_max_logits(t->g) ? lm_engine_max_rows(t->g)
                                                                 : lm_engine_max_logits(t->g);
}

lm_status lm_trace_compare(lm_tracer *a, lm_tracer *b, const lm_token *ids, size_t n,
                           lm_trace_comparison **out, lm_error *e)
{
    LM_REQUIRE(e, a && b && out && (ids || !n));
    lm_trace_comparison *c    = lm_alloc_zero(1, sizeof *c);
    size_t               max = rows_at_once(a) < rows_at_once(b) ? rows_at_once(a) : rows_at_once(b);
    lm_status            status = LM_OK;

    if (!c)
        return lm_fail_memory(e, "a comparison", sizeof *c);
    if (a->p->n_vocab != b->p->n_vocab)
        status = lm_fail(e, LM_USAGE, "vocabulary", LM_NO_OFFSET, "one model has %u tokens, the other %u",
                         a->p->n_vocab, b->p->n_vocab);
    for (size_t i = 0; status == LM_OK && i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= a->p->n_vocab)
            status = lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                             ids[i], a->p->n_vocab);
    if (status == LM_OK)
        status = make_room(c, a, b, n, e);
    if (status == LM_OK)
        status = lm_tracer_restart(a, e);
    if (status == LM_OK)
        status = lm_tracer_restart(b, e);
    for (size_t at = 0, k; status == LM_OK && at < n; at += k) {
        k      = n - at < max ? n - at : max;
        status = compare_chunk(c, a, b, ids, at, k, e);
    }
    if (status != LM_OK) {
        lm_trace_comparison_free(c);
        return status;
    }
    *out = c;
    return LM_OK;
}

void lm_trace_comparison_free(lm_trace_comparison *c)
{
    if (!c)
        return;
    lm_arena_free(&c->arena);
    lm_free(c);
}

bool lm_trace_comparison_row(const lm_trace_comparison *c, size_t i, lm_trace_difference *out)
{
    if (!c || !out || i >= c->n)
        return false;
    *out = c->rows[i];
    return true;
}

bool lm_trace_comparison_layer(const lm_trace_comparison *c, size_t i, lm_trace_layer_difference *out)
{
    if (!c || !out || i >= c->n_layers)
        return false;
    *out = c->layers[i];
    return true;
}
