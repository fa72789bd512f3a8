/* caller_weights.c - load float32 matrices into the places that the plan assigned. */
#include "runtime/engine/caller_weights.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/engine/load.h"

enum { CHUNK_BYTES = 1 << 20 };          /* bytes of a matrix that a worker packs at a time */

typedef struct packing {
    const lm_matmul *matmul;
    const float     *x;
    uint8_t         *to;
    uint64_t         rows, cols;
    unsigned         chunks;
} packing;

static void pack_chunk(void *arg, unsigned worker, unsigned chunk)
{
    const packing *p = arg;
    uint64_t       from, to;

    (void)worker;
    lm_pool_range(p->rows, p->matmul->row_group, chunk, p->chunks, &from, &to);
    if (from < to)
        p->matmul->pack(p->to, p->x, p->rows, p->cols, from, to);
}

void lm_engine_put(lm_engine *g, uint32_t weight, uint64_t k, const float *x)
{
    const lm_placement *at = &g->plan->weights[weight];
    const lm_weight    *w  = &g->program->weights[weight];
    uint64_t n = lm_caller_weight_elements(w),
             each = w->kind == LM_VECTOR ? at->bytes : at->bytes / lm_weight_matrices(w);
    uint8_t            *to = g->weights + at->offset + each * k;

    if (at->kind != LM_PACKED) {
        memcpy(to, x, n * sizeof *x);
        return;
    }
    packing  p      = { at->matmul, x, to, w->dims[w->n_dims - 2], w->dims[w->n_dims - 1], 0 };
    uint64_t chunks = n * sizeof *x / CHUNK_BYTES + 1;
    p.chunks        = chunks < 4096 ? (unsigned)chunks : 4096;
    lm_pool_use(g->pool, lm_pool_threads(g->pool));
    lm_pool_run_chunks(g->pool, pack_chunk, &p, p.chunks);
}

const lm_dtype *lm_caller_weight_types(const lm_program *p, lm_arena *arena)
{
    lm_dtype *types = lm_arena_new(arena, p->n_weights + 1, lm_dtype);

    for (uint32_t i = 0; types && i < p->n_weights; i++)
        types[i] = LM_F32;
    return types;
}

static void set_places(lm_engine *g, uint32_t weight)
{
    const lm_placement *at = &g->plan->weights[weight];
    uint64_t            n  = lm_weight_matrices(&g->program->weights[weight]);

    g->weight[weight] = g->weights + at->offset;
    for (uint64_t k = 0; g->matrices[weight] && k < n; k++)
        g->matrices[weight][k] = g->weights + at->offset + at->bytes / n * k;
}

static lm_status report_progress(const lm_engine_options *o, uint32_t done, uint32_t of, lm_error *e)
{
    if (!o || !o->progress || o->progress(o->progress_arg, of ? (double)done / (double)of : 1))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
}

lm_status lm_engine_load_caller_weights(lm_engine *g, lm_caller_weights *values, void *arg,
                                        const lm_engine_options *o, lm_error *e)
{
    const lm_program *p    = g->program;
    uint64_t          max = 0;
    lm_status         status = LM_OK;

    for (uint32_t i = 0; i < p->n_weights; i++) {
        uint64_t n = lm_caller_weight_elements(&p->weights[i]);
        max = n > max ? n : max;
    }
    float *x = lm_alloc(max * sizeof *x);
    if (!x)
        return lm_fail_memory(e, "a matrix", max * sizeof *x);
    for (uint32_t i = 0; status == LM_OK && i < p->n_weights; i++) {
        uint64_t n = p->weights[i].kind == LM_VECTOR ? 1 : lm_weight_matrices(&p->weights[i]);
        set_places(g, i);
        status = report_progress(o, i, p->n_weights, e);
        for (uint64_t k = 0; status == LM_OK && k < n; k++) {
            status = values(arg, i, k, x, e);
            if (status == LM_OK)
                lm_engine_put(g, i, k, x);
        }
    }
    lm_free(x);
    if (status == LM_OK)
        status = report_progress(o, p->n_weights, p->n_weights, e);
    if (status == LM_OK)
        lm_engine_load_tables(g);
    return status;
}
