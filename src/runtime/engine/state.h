/* state.h - what an engine holds: its plan, its memory, the rows of a step. Modules that change it: kv.h,
 * load.h, execute.h, engine.c. */
#ifndef LM_RUNTIME_STATE_H
#define LM_RUNTIME_STATE_H

#include <stdatomic.h>

#include "base/os/pool.h"
#include "lamina/engine.h"
#include "plan/plan.h"
#include "runtime/model/model.h"

/* One page pool: a group of layers that see the same keys. All arrays are in the slab. */
typedef struct lm_pages {
    uint32_t *tables;            /* [sequences][pages_per_sequence]: page numbers, LM_NONE if there is none */
    uint32_t *uses;              /* [n_pages]: owners of the page: tables that name it, and page_owners.h */
    uint32_t *free;              /* [n_pages]: a stack of free ones … */
    atomic_uint n_free;          /* … and its height, which any thread may read */
} lm_pages;

struct lm_engine {
    const lm_model   *model;
    const lm_program *program;
    lm_plan          *plan;
    lm_kernels        kernels;
    lm_pool          *pool;
    uint32_t          threads, threads_batch;    /* threads of the pool that generation and prompts use */
    lm_memory         allocated;
    char              fingerprint[65];   /* of the model, once something has been saved or restored; else
                                            "" */
    uint8_t          *weights, *kv, *slab;
    const void      **weight;            /* [n_weights]: address of each */
    const void     ***matrices;          /* [n_weights]: for LM_EXPERTS and LM_HEADS, the address of each
                                            matrix; else NULL */
    lm_pages         *pages;             /* [n_groups] */
    float            *frequencies[LM_MAX_TABLES];    /* per rotary table: [2][dim/2], short and long */
    float             rope_factor[LM_MAX_TABLES][2]; /* factor of cosines and sines: short and long */
    /* adapters: */
    lm_program       *own_program;       /* the model's program with them, or NULL */
    const struct lm_adapter **adapters;  /* [n_adapters] */
    uint32_t          n_adapters;
    float            *row_adapters;      /* [n_adapters][options.rows]: scale of each adapter per row of a
                                            step */
    float            *seq_adapters;      /* [sequences][n_adapters] */
    uint32_t         *adapter_rows;      /* [n_adapters]: number of rows of a step that have it */
    const float     **slopes;            /* [n_caches]: ALiBi slopes per head; NULL if there are none */
    /* the forward pass */
    uint32_t         *positions, *sequences, *lengths, *wanted, *logit_index, *seq_next;
    uint32_t         *page_before;       /* [sequences]: the page of states that the last step read, or
                                            LM_NONE */
    uint32_t         *length_before;     /* [sequences]: the positions before that step */
    atomic_uint      *seq_length;        /* [sequences]: any thread may read them */
    int32_t          *tokens;
    uint32_t          n_rows, n_wanted;
    atomic_uint      *ranges_done;       /* per item that attention is split into */
    atomic_bool       cancel;
    atomic_int        failure;           /* an lm_status */
    atomic_ullong     ahead;             /* stage + 1 << 16 | rows << 8 | wanted rows, for waiting workers; 0:
                                            nothing to prefetch */
    uint8_t          *cursors;           /* of the waiting workers (ahead.c) */
    lm_value          hidden;            /* value kept for lm_engine_hidden, or LM_NONE */
    struct lm_profiler *profiler;        /* while profiling; else NULL */
    struct lm_observer *observer;        /* while the inputs of products are observed; else NULL */
    bool              led;               /* other ranks have this engine as well */
    atomic_bool       lost;              /* one of them is lost */
    lm_row           *sent_rows;         /* [rows]: rows of the step that is sent to other ranks */
    const float      *tail_input;        /* [rows][width]: input of LM_OP_INPUT */
    bool              borrows;           /* the weights are another engine's */
    /* called at the end of a completed step; NULL: no hook */
    void            (*after)(void *arg, const lm_engine *g);
    void             *after_arg;
    lm_arena          arena;
};

/* Return how many rows from position `from` on, at most `n`, give the same results in one step as one by one:
 * those on one side of where a rotation changes with the length. */
uint32_t lm_engine_uniform_rows(const lm_engine *g, uint32_t from, uint32_t n);

/* Return how many of the last n rows of a prompt, from position `from` on, end where states are kept: at the
 * last page of positions that ends before the prompt. Without states: n. */
uint32_t lm_engine_rows_to_keep(const lm_engine *g, uint32_t from, uint32_t n);

/* Return lm_engine_logits as writable memory, for a caller that overwrites the logits until the next step. */
float *lm_engine_logits_mut(lm_engine *g, size_t i);

#endif
