/* experts.c - steps of mixtures of experts: routing, dispatch, products and combination.
 *
 * Assignments are (row, choice) pairs. Which experts a row is routed to, and the order in which their results
 * are added, depend on the row alone, so a row's result is the same in every batch. */
#include <math.h>
#include <string.h>

#include "runtime/engine/steps.h"

enum { READING = 8 };                /* assignments that take as long as reading an expert's weights */

/* ---- dispatch ---- */

lm_dispatch lm_dispatch_of(const lm_engine *g, const lm_step *s, uint32_t buffer)
{
    const lm_node *n     = &g->program->nodes[s->node];
    uint32_t      *words = (uint32_t *)(void *)row_at(g, buffer, 0);
    const lm_plan_options *o = &g->plan->options;
    uint64_t max = (uint64_t)(s->domain == LM_ALL_ROWS ? o->max_rows : o->max_logits) * n->experts.top_k;

    return (lm_dispatch){ words, words + max, words + 2 * max, n->experts.top_k, n->experts.n_experts };
}

/* A counting sort: assignments in rising order of (expert, row). */
void lm_run_sort(const stage_chunk *p, const lm_step *s)
{
    lm_dispatch v = lm_dispatch_of(p->g, s, s->out);
    uint32_t n = rows_of(p->g, s->domain);

    memset(v.start, 0, (v.experts + 1) * sizeof *v.start);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < v.k; k++)
            v.start[(uint32_t)floats_at(p->g, s->in[0], i)[v.k + k] + 1]++;
    for (uint32_t e = 0; e < v.experts; e++)
        v.start[e + 1] += v.start[e];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < v.k; k++) {
            uint32_t place       = v.start[(uint32_t)floats_at(p->g, s->in[0], i)[v.k + k]]++;
            v.row[place]         = i;
            v.place[i * v.k + k] = place;
        }
    /* each start has moved to the next one's */
    memmove(v.start + 1, v.start, v.experts * sizeof *v.start);
    v.start[0] = 0;
}

void lm_run_dispatch(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    lm_dispatch v  = lm_dispatch_of(p->g, s, s->in[1]);
    uint64_t bytes = p->g->plan->buffers[s->out].stride;

    for (uint64_t i = from; i < to; i++)
        memcpy(row_at(p->g, s->out, i), row_at(p->g, s->in[0], v.row[i]), bytes);
}

/* Return the biases [E][out] of the weight that the step multiplies, or NULL. */
static const float *bias_of(const stage_chunk *p, const lm_step *s)
{
    const lm_node *n = &p->g->program->nodes[s->node];

    for (uint32_t i = 0; i < 3; i++)
        if (n->weights[i] == s->weight)
            return weight_of(p->g, n, i + 3);
    return NULL;
}

/* Return how many groups of outputs of an expert begin before `cost`, if the first begins at `from` and each
 * costs `each`. */
static uint64_t groups_before(uint64_t cost, uint64_t from, uint64_t each, uint64_t groups)
{
    uint64_t n = cost > from ? (cost - from + each - 1) / each : 0;

    return n < groups ? n : groups;
}

/* Cut the concatenated outputs of all routed experts into chunks by cost: a group of outputs costs the number
 * of the expert's assignments, plus READING for its weights. So the rows and weights of most experts are read
 * by one worker or two. */
void lm_run_experts(const stage_chunk *p, const lm_step *s)
{
    lm_engine       *g = p->g;
    const lm_weight *w = &g->program->weights[s->weight];
    lm_dispatch        v = lm_dispatch_of(g, s, s->in[1]);
    const float     *bias = bias_of(p, s);
    uint64_t         grain = s->matmul->row_group, groups = (w->dims[1] + grain - 1) / grain, all = 0, at = 0;

    for (uint32_t e = 0; e < v.experts; e++)
        all += v.start[e] == v.start[e + 1] ? 0 : groups * (v.start[e + 1] - v.start[e] + READING);
    unsigned workers = lm_pool_used(g->pool);
    uint64_t from = lm_chunk_begin(workers, all, p->index, p->count),
             to = lm_chunk_begin(workers, all, p->index + 1, p->count);
    for (uint32_t e = 0; at < to && e < v.experts; e++) {
        uint64_t n = v.start[e + 1] - v.start[e], first, last;
        if (n == 0)
            continue;
        first = groups_before(from, at, n + READING, groups);
        last  = groups_before(to, at, n + READING, groups);
        at += groups * (n + READING);
        if (first == last)
            continue;
        multiply(p, s, g->matrices[s->weight][e], &(lm_matmul_args){
                     .rows = w->dims[1],
            .cols     = w->dims[2],
            .first    = first * grain,
            .last     = last * grain < w->dims[1] ? last * grain : w->dims[1],
            .x        = row_at(g, s->in[0], v.start[e]),
            .x_stride = g->plan->buffers[s->in[0]].stride,
            .n        = n,
            .y        = floats_at(g, s->out, v.start[e]),
            .y_stride = g->plan->buffers[s->out].stride / sizeof(float),
            .bias     = bias ? bias + e * w->dims[1] : NULL,
            .scale    = 1,
        });
    }
}

void lm_run_combine(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    lm_dispatch    v     = lm_dispatch_of(p->g, s, s->in[1]);
    const lm_node *n     = &p->g->program->nodes[s->node];
    uint64_t       width = width_of(p->g, n->out);

    for (uint64_t i = from; i < to; i++) {
        const float *route = floats_at(p->g, s->in[2], i);
        float       *y     = floats_at(p->g, s->out, i);
        for (uint32_t k = 0; k < v.k; k++) {
            const float *x = floats_at(p->g, s->in[0], v.place[i * v.k + k]);
            float        w = n->experts.scaled_input ? 1 : route[k];
            if (k == 0)
                p->g->kernels.row.scale(y, x, w, width);
            else
                p->g->kernels.row.add(y, y, x, w, width);
        }
    }
}
