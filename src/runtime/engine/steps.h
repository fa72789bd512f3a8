/* steps.h - what the steps of a plan share: the chunk of a stage that a worker takes, and the addresses of
 * rows and weights. */
#ifndef LM_RUNTIME_STEPS_H
#define LM_RUNTIME_STEPS_H

#include "runtime/engine/state.h"

/* One of the chunks that a stage is cut into, and the worker that runs it: workers take chunks when they are
 * free, so scratch belongs to the worker and everything else to the chunk. */
typedef struct stage_chunk {
    lm_engine      *g;
    const lm_stage *stage;
    unsigned        worker, index, count;
} stage_chunk;

enum {
    LM_CHUNK_BYTES = 96 << 10,       /* minimum average weight bytes of a chunk, times rows of x up to 16, to
                                        give a worker more than one */
    LM_MAX_CHUNKS  = 4,               /* per worker */
    LM_TILE        = 32,             /* maximum rows that attention processes together */
};

/* Return the number of chunks of a stage of products that reads `bytes` of weights: one, two or four per
 * worker, enough that a worker that is slow, or loses its processor, leaves its work to the others. Three
 * would be unbalanced even if each is smaller than the last. */
static inline unsigned lm_product_chunks(unsigned workers, uint64_t bytes, uint64_t rows)
{
    uint64_t each = bytes * (rows < 16 ? rows : 16) / LM_CHUNK_BYTES / workers;

    return workers == 1 ? 1 : workers * (each < 2 ? 1 : each < LM_MAX_CHUNKS ? 2 : LM_MAX_CHUNKS);
}

/* Return the first grain of chunk i, when `grains` are cut into n chunks.
 *
 * With one chunk per worker, chunks are equal. With more, each is smaller than the one before, because
 * workers take chunks as they become free and the last ones should end together; before chunk i, ((n - i) /
 * n)² of the grains are left. Chunks are few nevertheless: at the beginning of each a worker waits for
 * weights that were not prefetched, and each reads all rows of x again. */
static inline uint64_t lm_chunk_begin(unsigned workers, uint64_t grains, unsigned i, unsigned n)
{
    uint64_t left = n - i;

    return n <= workers ? grains * i / n : grains - grains * left * left / ((uint64_t)n * n);
}

/* Compute the outputs [from, to) of a chunk, in whole grains. */
static inline void lm_chunk_outputs(unsigned workers, uint64_t outputs, uint64_t grain, unsigned chunk,
                                    unsigned chunks, uint64_t *from, uint64_t *to)
{
    uint64_t grains = (outputs + grain - 1) / grain,
             a = lm_chunk_begin(workers, grains, chunk, chunks) * grain;
    uint64_t b = lm_chunk_begin(workers, grains, chunk + 1, chunks) * grain;

    *from = a < outputs ? a : outputs;
    *to   = b < outputs ? b : outputs;
}

/* Return how many chunks a stage is cut into for `rows` rows of its domain (chunks.c). */
unsigned lm_stage_chunks(const lm_engine *g, const lm_stage *t, uint32_t rows);

static inline uint32_t rows_of(const lm_engine *g, lm_domain domain)
{
    return domain == LM_ALL_ROWS ? g->n_rows : g->n_wanted;
}

/* Return the number of row i of a domain among all rows. */
static inline uint32_t row_number(const lm_engine *g, lm_domain domain, uint64_t i)
{
    return domain == LM_ALL_ROWS ? (uint32_t)i : g->wanted[i];
}

static inline uint8_t *row_at(const lm_engine *g, uint32_t buffer, uint64_t row)
{
    const lm_buffer *b = &g->plan->buffers[buffer];

    return g->slab + b->offset + row * b->stride;
}

static inline float *floats_at(const lm_engine *g, uint32_t buffer, uint64_t row)
{
    return (float *)(void *)row_at(g, buffer, row);
}

static inline uint8_t *scratch_of(const lm_engine *g, unsigned worker)
{
    return g->slab + g->plan->state.workers + worker * g->plan->state.worker_bytes;
}

static inline uint64_t width_of(const lm_engine *g, lm_value v)
{
    return g->program->values[v].width;
}

static inline const void *weight_of(const lm_engine *g, const lm_node *n, unsigned which)
{
    return n->weights[which] == LM_NONE ? NULL : g->weight[n->weights[which]];
}

/* Find the next run of consecutive rows of a step's domain that have its adapter at the same scale: [*from,
 * *to), the first at or after *from and below `end`. False: there is none. */
static inline bool adapted_rows(const lm_engine *g, const lm_step *s, uint64_t end, uint64_t *from,
                                uint64_t *to, float *scale)
{
    const float *scales = g->row_adapters + (size_t)(s->adapter - 1) * g->plan->options.max_rows;

    while (*from < end && scales[row_number(g, s->domain, *from)] == 0)
        ++*from;
    if (*from >= end)
        return false;
    *scale = scales[row_number(g, s->domain, *from)];
    for (*to = *from + 1; *to < end && scales[row_number(g, s->domain, *to)] == *scale;)
        ++*to;
    return true;
}

/* Multiply with a weight; `a` is complete except for w and scratch, which are set here. */
static inline void multiply(const stage_chunk *p, const lm_step *s, const void *w, lm_matmul_args *a)
{
    const lm_placement *at = &p->g->plan->weights[s->weight];

    a->w       = w;
    a->scratch = scratch_of(p->g, p->worker);
    if (at->kind == LM_MAPPED)
        lm_stored_run(s->matmul, a, at->row_bytes);
    else
        s->matmul->run(a);
}

/* Multiply only the rows that have the step's adapter. */
static inline void multiply_adapted(const stage_chunk *p, const lm_step *s, const void *w,
                                    const lm_matmul_args *all)
{
    float scale;

    for (uint64_t from = 0, to; adapted_rows(p->g, s, all->n, &from, &to, &scale); from = to) {
        lm_matmul_args a = *all;
        a.x = (const uint8_t *)all->x + from * all->x_stride;
        a.y += from * all->y_stride;
        a.n = to - from;
        if (all->add) {
            a.add += from * all->add_stride;
            a.scale *= scale;
        }
        multiply(p, s, w, &a);
    }
}

/* Read one row of a table. */
static inline void look_up(const stage_chunk *p, const lm_step *s, uint32_t weight, uint64_t row, float *out)
{
    const lm_weight    *w  = &p->g->program->weights[weight];
    const lm_placement *at = &p->g->plan->weights[weight];
    const uint8_t      *at_row = p->g->weight[weight];

    if (at->kind == LM_MAPPED)
        lm_dtype_of(at->type)->unpack(out, at_row + row * at->row_bytes, w->dims[1]);
    else
        s->matmul->row(out, at_row, w->dims[0], w->dims[1], row);
}

/* The addresses of a sequence's keys, for one layer. */
typedef struct layer_pages {
    const uint32_t *pages;
    uint8_t        *base;
    uint64_t        stride;
} layer_pages;

static inline layer_pages pages_of(const lm_engine *g, const lm_kv_layer *l, uint32_t sequence)
{
    const lm_kv_group *k = &g->plan->groups[l->group];

    return (layer_pages){ g->pages[l->group].tables + (size_t)sequence * k->pages_per_sequence,
                          g->kv + k->offset + l->offset, k->page_bytes };
}

/* ---- attention (attend.c) ---- */

/* Return the number of chunks that there is work for. */
unsigned lm_attention_chunks(const lm_engine *g, const lm_step *s);
/* Run the k-th of the `n` ranges that `a` sees; the worker that finishes the last range merges them.
 * `partials` and `done` belong to the item. `done` counts from zero and is zero again at the end of the
 * stage: nothing that attention reads is mapped from the file, so no chunk of it is interrupted. */
void lm_attend_range(const lm_attention_kernels *kernels, const lm_attention_args *a, uint32_t k, uint32_t n,
                     uint8_t *partials, atomic_uint *done);
void lm_run_attention(const stage_chunk *p, const lm_step *s);

/* ---- the choice of the keys of sparse attention (attend.c) ---- */

unsigned lm_select_chunks(const lm_engine *g, const lm_step *s);
void     lm_run_select(const stage_chunk *p, const lm_step *s);

/* ---- entries of compressed attention (states.c) ---- */

/* Read an entry of a sequence: out [k_dim]. */
void lm_read_entry(const lm_engine *g, const lm_kv_layer *l, uint32_t sequence, uint32_t entry, float *out);
/* Store the entries of the blocks that end in rows [from, to). */
void lm_run_keep(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to);

/* ---- operations with a state (states.c) ---- */

/* Return the number of parts into which a state can be divided among workers. */
uint64_t lm_state_units(const lm_engine *g, const lm_step *s);
void     lm_run_state(const stage_chunk *p, const lm_step *s);

/* ---- interventions (intervene.c) ---- */

/* Apply the operation's edits to rows [from, to) of a value. */
void lm_run_edit(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to);

/* ---- mixtures of experts (experts.c) ---- */

/* Sort the assignments of all rows by expert. Runs on one worker. */
void lm_run_sort(const stage_chunk *p, const lm_step *s);
/* Copy the packed row of each of the assignments [from, to). */
void lm_run_dispatch(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to);
/* Multiply the rows assigned to each expert with its matrix, for this worker's outputs. */
void lm_run_experts(const stage_chunk *p, const lm_step *s);
/* Compute the weighted sum of the assignments of each of the rows [from, to). */
void lm_run_combine(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to);

/* The order buffer of a mixture: [assignments] row, [assignments] place of each (row, choice), [E + 1] begin
 * of each expert. */
typedef struct lm_dispatch {
    uint32_t *row, *place, *start;
    uint32_t  k, experts;
} lm_dispatch;

lm_dispatch lm_dispatch_of(const lm_engine *g, const lm_step *s, uint32_t buffer);

#endif
