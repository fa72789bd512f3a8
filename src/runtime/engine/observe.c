/* observe.c - find the rows that each product reads, and store them until it runs. */
#include "runtime/engine/observe.h"

#include <string.h>

#include "base/alloc.h"
#include "plan/cost.h"
#include "runtime/engine/steps.h"

/* Rows that a packing step has read. Steps whose rows are not needed at the same time share a slot. */
typedef struct slot { float *rows; uint64_t bytes; uint32_t busy_until; } slot;

typedef struct lm_observer {
    lm_observe_fn *fn;
    void          *arg;
    uint32_t      *source;           /* [steps]: for a product, the step that packs its input; LM_NONE: it
                                        reads float32 */
    bool          *dispatched;       /* [steps]: those rows were copied per assignment after they were
                                        packed */
    uint32_t      *slot_of;          /* [steps]: of a packing step; LM_NONE: its rows are not needed */
    slot          *slots;
    uint32_t       n_slots;
} lm_observer;

static uint64_t row_floats(const lm_step *s) { return (uint64_t)s->width * s->groups; }

static uint64_t max_rows(const lm_plan *p, const lm_step *s)
{
    return (uint64_t)(s->domain == LM_ALL_ROWS ? p->options.max_rows : p->options.max_logits) * s->times;
}

/* ---- where rows come from ---- */

/* Return the last step before `i` that wrote a buffer; LM_NONE: none. */
static uint32_t writer_of(const lm_plan *p, uint32_t i, uint32_t buffer)
{
    while (i-- > 0)
        if (p->steps[i].out == buffer)
            return i;
    return LM_NONE;
}

static void find_source(lm_observer *o, const lm_plan *p, uint32_t i)
{
    uint32_t from = writer_of(p, i, p->steps[i].in[0]);

    o->dispatched[i] = from != LM_NONE && p->steps[from].code == LM_STEP_DISPATCH;
    if (o->dispatched[i])
        from = writer_of(p, from, p->steps[from].in[0]);
    o->source[i] = from != LM_NONE && p->steps[from].code == LM_STEP_PACK ? from : LM_NONE;
    if (o->source[i] == LM_NONE)
        o->dispatched[i] = false;        /* float32 rows are copied in the order of the assignments */
}

/* Assign a slot to packing step `i` of stage `begin`, whose rows are needed up to stage `end`. */
static void take_slot(lm_observer *o, const lm_plan *p, uint32_t i, uint32_t begin, uint32_t end)
{
    uint64_t bytes = max_rows(p, &p->steps[i]) * row_floats(&p->steps[i]) * sizeof(float);
    uint32_t k     = 0;

    while (k < o->n_slots && o->slots[k].busy_until >= begin)
        k++;
    o->n_slots += k == o->n_slots;
    o->slots[k].busy_until = end;
    o->slots[k].bytes      = bytes > o->slots[k].bytes ? bytes : o->slots[k].bytes;
    o->slot_of[i]          = k;
}

static void study(lm_observer *o, const lm_plan *p, uint32_t *last)
{
    for (uint32_t i = 0; i < p->n_steps; i++) {
        o->source[i] = o->slot_of[i] = LM_NONE;
        last[i] = 0;
    }
    for (uint32_t t = 0; t < p->n_stages; t++)
        for (uint32_t i = p->stages[t].first; i < p->stages[t].end; i++)
            if (lm_is_product(&p->steps[i])) {
                find_source(o, p, i);
                if (o->source[i] != LM_NONE)
                    last[o->source[i]] = t;
            }
    for (uint32_t t = 0; t < p->n_stages; t++)
        for (uint32_t i = p->stages[t].first; i < p->stages[t].end; i++)
            if (last[i])
                take_slot(o, p, i, t, last[i]);
}

lm_status lm_engine_observe(lm_engine *g, lm_observe_fn *fn, void *arg, lm_error *e)
{
    size_t       n = g->plan->n_steps;
    lm_observer *o = lm_alloc_zero(1, sizeof *o);
    uint32_t    *last = lm_alloc_zero(n, sizeof *last);

    lm_engine_observe_end(g);
    g->observer = o;
    if (o) {
        *o = (lm_observer){ .fn = fn, .arg = arg };
        o->source     = lm_alloc_zero(n, sizeof *o->source);
        o->dispatched = lm_alloc_zero(n, sizeof *o->dispatched);
        o->slot_of    = lm_alloc_zero(n, sizeof *o->slot_of);
        o->slots      = lm_alloc_zero(n + 1, sizeof *o->slots);
    }
    bool     ready = o && last && o->source && o->dispatched && o->slot_of && o->slots;
    uint64_t bytes = n * sizeof *last;
    if (ready)
        study(o, g->plan, last);
    lm_free(last);
    for (uint32_t i = 0; ready && i < o->n_slots; i++) {
        bytes            = o->slots[i].bytes;
        o->slots[i].rows = lm_alloc(bytes);
        ready            = o->slots[i].rows != NULL;
    }
    if (ready)
        return LM_OK;
    lm_engine_observe_end(g);
    return lm_fail_memory(e, "inputs", bytes);
}

void lm_engine_observe_end(lm_engine *g)
{
    lm_observer *o = g->observer;

    if (!o)
        return;
    for (uint32_t i = 0; o->slots && i < o->n_slots; i++)
        lm_free(o->slots[i].rows);
    lm_free(o->source);
    lm_free(o->dispatched);
    lm_free(o->slot_of);
    lm_free(o->slots);
    lm_free(o);
    g->observer = NULL;
}

/* ---- during a step ---- */

void lm_observe_packed(const lm_engine *g, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_observer *o    = g->observer;
    uint32_t           kept = o->slot_of[s - g->plan->steps];
    uint64_t           n    = row_floats(s);

    for (uint64_t i = from; kept != LM_NONE && i < to; i++)
        memcpy(o->slots[kept].rows + i * n, floats_at(g, s->in[0], i), n * sizeof(float));
}

static void observe_experts(const lm_engine *g, const lm_step *s, const float *x, uint64_t stride,
                            bool dispatched)
{
    const lm_observer *o = g->observer;
    lm_dispatch          v = lm_dispatch_of(g, s, s->in[1]);

    for (uint32_t e = 0; e < v.experts; e++) {
        if (!dispatched)
            o->fn(o->arg, s->weight, e, x + v.start[e] * stride, stride, v.start[e + 1] - v.start[e]);
        for (uint32_t i = v.start[e]; dispatched && i < v.start[e + 1]; i++)
            o->fn(o->arg, s->weight, e, x + v.row[i] * stride, stride, 1);
    }
}

static void observe_product(const lm_engine *g, const lm_step *s)
{
    const lm_observer *o      = g->observer;
    const lm_node     *n      = &g->program->nodes[s->node];
    const lm_weight   *w      = &g->program->weights[s->weight];
    uint32_t           source = o->source[s - g->plan->steps];
    const lm_step     *pack   = source == LM_NONE ? NULL : &g->plan->steps[source];
    const float       *x      = pack ? o->slots[o->slot_of[source]].rows : floats_at(g, s->in[0], 0);
    uint64_t           stride = pack ? row_floats(pack) : g->plan->buffers[s->in[0]].stride / sizeof(float);

    if (s->code == LM_STEP_EXPERTS)
        observe_experts(g, s, x, stride, o->dispatched[s - g->plan->steps]);
    else if (s->code == LM_STEP_HEADS)
        for (uint32_t h = 0; h < w->dims[0]; h++)
            o->fn(o->arg, s->weight, h, n->heads.shared ? x : x + h * w->dims[2], stride,
                  rows_of(g, s->domain));
    else
        o->fn(o->arg, s->weight, 0, x, stride, rows_of(g, s->domain));
}

void lm_observe_stage(const lm_engine *g, const lm_stage *t)
{
    for (uint32_t i = t->first; i < t->end; i++)
        if (lm_is_product(&g->plan->steps[i]))
            observe_product(g, &g->plan->steps[i]);
}
