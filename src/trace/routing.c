/* routing.c - the experts that a row is routed to, and the norms of its vectors. */
#include <math.h>

#include "trace/tracer.h"

lm_status lm_trace_routing(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e)
{
    size_t           n   = t->map.n_routes, at = 0;
    lm_trace_experts *out = lm_arena_new(&r->arena, n + 1, lm_trace_experts);

    if (!out)
        return lm_fail_memory(e, "experts", n);
    for (size_t k = 0; k < n; k++) {
        const lm_node *node  = &t->p->nodes[t->map.routes[k]];
        uint32_t       top   = node->route.spec.top_k;
        const float   *route = lm_engine_value(t->g, node->out, i);
        uint32_t      *which = lm_arena_new(&r->arena, top, uint32_t);
        float         *how   = lm_arena_new(&r->arena, top, float);
        if (!which || !how)
            return lm_fail_memory(e, "experts", top);
        for (uint32_t x = 0; route && x < top; x++) {
            which[x] = (uint32_t)route[top + x];
            how[x]   = route[x];
        }
        if (route)
            out[at++] = (lm_trace_experts){ .path = lm_trace_block(t->p, node->module),
                                            .layer = node->layer,
                                            .n = top,
                                            .expert = which,
                                            .weight = how };
    }
    r->row.experts   = out;
    r->row.n_experts = at;
    return LM_OK;
}

static double length_of(const float *x, const float *minus, double factor, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        double v = (double)x[i] - (minus ? (double)minus[i] : 0);
        sum += v * v;
    }
    return sqrt(sum) * fabs(factor);
}

lm_status lm_trace_measure(lm_tracer *t, lm_trace_record *r, lm_error *e)
{
    uint32_t        width = lm_trace_width(t);
    size_t          n     = t->map.n_points + t->map.n_terms;
    const float    *terms = r->states + t->map.n_points * (size_t)width;
    lm_trace_contribution *out   = lm_arena_new(&r->arena, n + 1, lm_trace_contribution);
    size_t          at    = 0;

    if (!out)
        return lm_fail_memory(e, "norms", n);
    for (size_t i = 0; i < t->map.n_points; i++) {
        const lm_trace_point *x = &t->map.points[i];
        if (x->part == LM_TRACE_LAYER || x->part == LM_TRACE_EMBEDDING)
            out[at++] = (lm_trace_contribution){ .path = x->path, .layer = x->layer, .part = x->part,
                                          .value = length_of(r->states + i * (size_t)width, NULL, 1, width) };
    }
    for (size_t i = 0; i < t->map.n_terms; i++) {
        const lm_trace_term *x = &t->map.terms[i];
        const float         *v = terms + 2 * i * (size_t)width;
        const float         *minus = x->minus == LM_NONE ? NULL : v + width;
        if (x->layer >= 0)
            out[at++] = (lm_trace_contribution){ .path = x->path,
                                                 .layer = x->layer,
                                                 .part = x->part,
                                                 .value = length_of(v, minus, (double)x->factor, width) };
    }
    r->row.norms   = out;
    r->row.n_norms = at;
    return LM_OK;
}
