/* state.h - what an engine holds: its plan, its memory, the rows of a step. Who changes what: kv.h, load.h, execute.h, engine.c. */
#ifndef LM_RUNTIME_STATE_H
#define LM_RUNTIME_STATE_H

#include <stdatomic.h>

#include "base/pool.h"
#include "lamina/engine.h"
#include "plan/plan.h"
#include "runtime/engine/model.h"

/* One page pool: a group of layers that see the same keys. All arrays lie in the slab. */
typedef struct lm_pages {
    uint32_t *tables;            /* [sequences][pages_per_sequence]: page numbers, LM_NONE where there is none */
    uint32_t *uses;              /* [n_pages]: tables that name the page */
    uint32_t *free;              /* [n_pages]: a stack of free ones … */
    atomic_uint n_free;          /* … and its height, which any thread may ask for */
} lm_pages;

struct lm_engine {
    const lm_model   *model;
    const lm_program *program;
    lm_plan          *plan;
    lm_kernels        kernels;
    lm_pool          *pool;
    uint32_t          threads, threads_batch;    /* that generation and prompts use, of the pool's */
    lm_memory         allocated;
    char              fingerprint[65];   /* of the model, once something was saved or restored; else "" */
    uint8_t          *weights, *kv, *slab;
    const void      **weight;            /* [n_weights]: where each lies */
    const void     ***matrices;          /* [n_weights]: of LM_EXPERTS and LM_HEADS, where each one's matrix lies; else NULL */
    lm_pages         *pages;             /* [n_groups] */
    float            *frequencies[LM_MAX_TABLES];    /* per rotary table: [2][dim/2], short and long */
    float             rope_factor[LM_MAX_TABLES][2]; /* that cosines and sines are multiplied with: short and long */
    /* adapters: */
    lm_program       *own_program;       /* the model's with them, or NULL */
    const struct lm_adapter **adapters;  /* [n_adapters] */
    uint32_t          n_adapters;
    float            *row_adapters;      /* [n_adapters][options.rows]: the scale of each for each row of a step */
    float            *seq_adapters;      /* [sequences][n_adapters] */
    uint32_t         *adapter_rows;      /* [n_adapters]: rows of a step that have it */
    const float     **slopes;            /* [n_caches]: ALiBi's, per head; NULL where there are none */
    /* the forward pass */
    uint32_t         *positions, *sequences, *lengths, *wanted, *logit_index, *seq_next;
    atomic_uint      *seq_length;        /* [sequences]: any thread may ask for them */
    int32_t          *tokens;
    uint32_t          n_rows, n_wanted;
    atomic_uint      *ranges_done;       /* of each item that attention is split into */
    atomic_bool       cancel;
    atomic_int        failure;           /* an lm_status */
    atomic_ullong     ahead;             /* stage + 1 << 16 | rows << 8 | wanted rows, for workers that wait; 0: nothing to ask for */
    uint8_t          *cursors;           /* theirs (ahead.c) */
    lm_value          hidden;            /* that is kept for lm_engine_hidden, or LM_NONE */
    struct lm_profiler *profiler;        /* while somebody wants to know; else NULL */
    struct lm_observer *observer;        /* the same of the inputs of products */
    bool              led;               /* other ranks have this engine too */
    atomic_bool       lost;              /* one of them is lost */
    lm_row           *sent_rows;         /* [rows]: of the step that is sent to other ranks */
    const float      *given;             /* [rows][width]: what LM_OP_GIVEN reads */
    bool              borrows;           /* weights are another engine's */
    void            (*after)(void *arg, const lm_engine *g);     /* called at the end of a step that was run; NULL: nobody looks */
    void             *after_arg;
    lm_arena          arena;
};

/* Rows from position `from` on, at most `n`, that get in one step what they get one by one: on one side of where a rotation
 * changes with the length. */
uint32_t lm_engine_alike(const lm_engine *g, uint32_t from, uint32_t n);

/* lm_engine_logits, for who writes others in their place until the next step. */
float *lm_engine_logits_written(lm_engine *g, size_t i);

#endif
