/* variant.c - what tracing reads from an engine: kept values, rows of its weights, the time of each step. */
#include "runtime/engine/variant.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/engine/profile.h"
#include "runtime/engine/steps.h"

const float *lm_engine_value(const lm_engine *g, lm_value v, size_t i)
{
    uint32_t b = v < g->program->n_values ? g->plan->value_buffer[v] : LM_NONE;

    if (b == LM_NONE || i >= g->n_rows)
        return NULL;
    if (g->plan->buffers[b].domain == LM_WANTED_ROWS)
        return g->logit_index[i] == LM_NONE ? NULL : floats_at(g, b, g->logit_index[i]);
    return floats_at(g, b, i);
}

void lm_engine_weight_row(const lm_engine *g, uint32_t weight, uint64_t row, float *out)
{
    const lm_weight    *w  = &g->program->weights[weight];
    const lm_placement *at = &g->plan->weights[weight];
    const uint8_t      *is = g->weight[weight];

    if (at->kind == LM_MAPPED || at->kind == LM_TRANSPOSED)
        lm_dtype_of(at->type)->unpack(out, is + row * at->row_bytes, w->dims[1]);
    else
        at->matmul->row(out, is, w->dims[0], w->dims[1], row);
}

/* ---- the time of each step ---- */

lm_status lm_engine_time_steps(lm_engine *g, lm_error *e)
{
    size_t head = (sizeof(lm_profiler) + 63) & ~(size_t)63, lanes = (g->plan->n_steps + 8) & ~(size_t)7;
    size_t       bytes = head + lm_pool_threads(g->pool) * lanes * sizeof(uint64_t);
    lm_profiler *p     = lm_alloc_aligned(bytes, 64);

    if (!p)
        return lm_fail_memory(e, "times", bytes);
    memset(p, 0, bytes);
    lm_profiler_free(g->profiler);
    p->bytes    = bytes;
    p->lanes    = (uint32_t)lanes;
    p->ns       = (uint64_t *)(void *)((uint8_t *)p + head);
    g->profiler = p;
    return LM_OK;
}

void lm_engine_step_times(const lm_engine *g, uint64_t *ns)
{
    const lm_profiler *p = g->profiler;

    memset(ns, 0, g->plan->n_steps * sizeof *ns);
    if (!p || p->kind)
        return;
    for (unsigned w = 0; w < lm_pool_threads(g->pool); w++)
        for (uint32_t i = 0; i < g->plan->n_steps; i++)
            ns[i] += p->ns[(size_t)w * p->lanes + i];
}

void lm_engine_time_steps_end(lm_engine *g)
{
    lm_profiler_free(g->profiler);
    g->profiler = NULL;
}
