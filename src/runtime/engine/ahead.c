/* ahead.c - what workers do while they wait in generation: they prefetch the weights that they will read
 * first.
 *
 * Generation mostly reads weights, so memory bandwidth is unused while a worker waits for another one, or for
 * rows that are not worth sharing. The next stage of products is known, and so is the chunk that a worker
 * will most likely take of it; if another worker takes that chunk, it still finds the weights in a cache. */
#include "runtime/engine/ahead.h"

#include "runtime/engine/steps.h"

enum {
    AHEAD_BYTES = 128 << 10,         /* weights that a worker prefetches in all: they wait in its second-level
                                        cache */
    PIECE       = 512,               /* bytes of each half that it prefetches before it checks again for
                                        work */
};

/* How far a worker has come. `at`: stage and rows, as in state.h. */
typedef struct cursor {
    _Alignas(64) uint64_t at;
    const uint8_t *p[2];             /* kernels read both halves of a chunk side by side */
    uint64_t       left[2];
    uint64_t       budget;
    uint32_t       step, end, chunk, chunks;
} cursor;

lm_status lm_ahead_new(lm_engine *g, lm_error *e)
{
    size_t   bytes = (lm_pool_threads(g->pool) + 1) * sizeof(cursor);
    uint8_t *p     = lm_arena_new(&g->arena, bytes, uint8_t);

    if (!p)
        return lm_fail_memory(e, "engine", bytes);
    g->cursors = p + (64 - (uintptr_t)p % 64) % 64;
    lm_pool_idle(g->pool, lm_ahead_read, g);
    return LM_OK;
}

void lm_ahead_set(lm_engine *g, uint32_t stage)
{
    uint64_t at = 0;

    if (g->n_rows <= LM_FEW_ROWS)
        at = (uint64_t)(stage + 1) << 16 | g->n_rows << 8 | g->n_wanted;
    atomic_store_explicit(&g->ahead, at, memory_order_relaxed);
}

/* Return the first stage of products after `stage`, wrapping around at the end; NULL: none of the next
 * seven. */
static const lm_stage *next_products(const lm_plan *plan, uint32_t stage)
{
    for (uint32_t i = 1; i < 8 && i <= plan->n_stages; i++) {
        const lm_stage *t = &plan->stages[(stage + i) % plan->n_stages];
        if (t->split == LM_BY_OUTPUTS)
            return t;
    }
    return NULL;
}

static void begin(const lm_engine *g, cursor *c, unsigned worker, uint64_t at)
{
    const lm_stage *t = next_products(g->plan, (uint32_t)(at >> 16) - 1);

    *c = (cursor){ .at = at };
    if (!t)
        return;
    c->chunks = lm_stage_chunks(g, t, (uint32_t)(t->domain == LM_ALL_ROWS ? at >> 8 & 0xff : at & 0xff));
    c->chunk  = worker;
    c->step   = t->first;
    c->end    = worker < c->chunks ? t->end : t->first;
    c->budget = AHEAD_BYTES;
}

/* Find the part of the next product that the worker's chunk will read. */
static bool next_part(const lm_engine *g, cursor *c)
{
    while (c->step < c->end) {
        const lm_step      *s  = &g->plan->steps[c->step++];
        const lm_placement *at = &g->plan->weights[s->weight];
        const lm_weight    *w  = &g->program->weights[s->weight];
        uint64_t            from, to, first, half, last;
        if (s->code != LM_STEP_MATMUL || at->kind != LM_PACKED || !s->matmul->packed_bytes)
            continue;
        lm_chunk_outputs(lm_pool_used(g->pool), w->dims[0], s->matmul->row_group, c->chunk, c->chunks, &from,
                         &to);
        if (from == to)
            continue;
        first = s->matmul->packed_bytes(from, w->dims[1]);
        half  = s->matmul->packed_bytes(from + (to - from + 31) / 32 * 16, w->dims[1]);
        last  = s->matmul->packed_bytes(to, w->dims[1]);
        c->p[0]    = (const uint8_t *)g->weight[s->weight] + first;
        c->p[1]    = (const uint8_t *)g->weight[s->weight] + half;
        c->left[0] = half - first;
        c->left[1] = last > half ? last - half : 0;
        return true;
    }
    return false;
}

bool lm_ahead_read(void *engine, unsigned worker)
{
    lm_engine *g  = engine;
    cursor    *c  = (cursor *)(void *)g->cursors + worker;
    uint64_t   at = atomic_load_explicit(&g->ahead, memory_order_relaxed);

    if (c->at != at) {
        if (at == 0)
            return false;
        /* stages before the same products continue where the previous one stopped */
        if (c->at == 0 || next_products(g->plan, (uint32_t)(c->at >> 16) - 1) !=
                              next_products(g->plan, (uint32_t)(at >> 16) - 1))
            begin(g, c, worker, at);
        c->at = at;
    }
    if (c->budget < 2 * PIECE || (c->left[0] == 0 && c->left[1] == 0 && !next_part(g, c)))
        return false;
    for (int h = 0; h < 2; h++) {
        uint64_t n = c->left[h] < PIECE ? c->left[h] : PIECE;
        for (uint64_t i = 0; i < n; i += 64)
            __builtin_prefetch(c->p[h] + i, 0, 2);
        c->p[h] += n;
        c->left[h] -= n;
        c->budget -= n;
    }
    return true;
}
