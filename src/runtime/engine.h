/* engine.h - the executor of a plan: memory, pages, stages. */
#ifndef LM_RUNTIME_ENGINE_H
#define LM_RUNTIME_ENGINE_H

#include <stdatomic.h>

#include "base/pool.h"
#include "lamina/engine.h"
#include "plan/plan.h"
#include "runtime/model.h"

/* How the cache keeps keys and values; LM_USAGE for a value that is no lm_kv_type. */
lm_status lm_kv_dtype(lm_kv_type kv, lm_dtype *out, lm_error *e);

/* One page pool: a group of layers that see the same keys. All arrays lie in the slab. */
typedef struct lm_pages {
    uint32_t *tables;            /* [sequences][pages_per_sequence]: page numbers, LM_NONE where there is none */
    uint32_t *uses;              /* [n_pages]: tables that name the page */
    uint32_t *free;              /* [n_pages]: a stack of free ones … */
    uint32_t  n_free;            /* … and its height */
} lm_pages;

struct lm_engine {
    const lm_model   *model;
    const lm_program *program;
    lm_plan          *plan;
    lm_kernels        kernels;
    lm_pool          *pool;
    uint32_t          threads, threads_batch;    /* that generation and prompts use, of the pool's */
    lm_memory         allocated;
    uint8_t          *weights, *kv, *slab;
    const void      **weight;            /* [n_weights]: where each lies */
    const void     ***matrices;          /* [n_weights]: of LM_EXPERTS and LM_HEADS, where each one's matrix lies; else NULL */
    lm_pages         *pages;             /* [n_groups] */
    float            *frequencies[LM_MAX_TABLES];    /* per rotary table: [2][dim/2], short and long */
    float             rope_factor[LM_MAX_TABLES][2]; /* that cosines and sines are multiplied with: short and long */
    const float     **slopes;            /* [n_caches]: ALiBi's, per head; NULL where there are none */
    /* the step */
    uint32_t         *positions, *sequences, *lengths, *wanted, *logit_index, *seq_length, *seq_next;
    int32_t          *tokens;
    uint32_t          n_rows, n_wanted;
    atomic_uint      *ranges_done;       /* of each item that attention is split into */
    atomic_bool       cancel;
    atomic_int        failure;           /* an lm_status */
    atomic_ullong     ahead;             /* stage + 1 << 16 | rows << 8 | wanted rows, for workers that wait; 0: nothing to ask for */
    uint8_t          *cursors;           /* theirs (ahead.c) */
    struct lm_profiler *profiler;        /* while somebody wants to know; else NULL */
    lm_arena          arena;
};

/* The plan that an engine with these options would run (`o` may be NULL), for weights of `types` ([n_weights]; NULL: as they
 * are stored). `k` and `arena` are filled and must live as long
 * as the plan. */
lm_status lm_engine_plan(const lm_model *m, const lm_engine_options *o, const lm_dtype *types, lm_kernels *k, lm_arena *arena,
                         lm_plan **out, lm_error *e);

/* ---- pages (kv.c) ---- */

void lm_kv_reset(lm_engine *g);

/* Make positions [seq_length, seq_next) of every sequence writable: new pages, copies of shared ones. Either all or none:
 * LM_LIMIT when there are not enough. */
lm_status lm_kv_reserve(lm_engine *g, lm_error *e);

/* Give back what lies at or past position `keep`. */
void lm_kv_release(lm_engine *g, uint32_t sequence, uint32_t keep);

/* ---- running (execute.c) ---- */

/* Fill float32 weights and packed ones; find where mapped ones lie. */
lm_status lm_engine_load(lm_engine *g, const lm_engine_options *o, lm_error *e);

/* While workers wait, they ask for the weights of the next products (ahead.c). `stage` has begun. */
lm_status lm_ahead_new(lm_engine *g, lm_error *e);
void      lm_ahead_set(lm_engine *g, uint32_t stage);
bool      lm_ahead_read(void *engine, unsigned worker);      /* a piece; false when there is no more */

/* Run the plan on the rows that the engine's arrays describe. */
lm_status lm_engine_execute(lm_engine *g, lm_error *e);

#endif
