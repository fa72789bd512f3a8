/* learner.h - a model that is trained: its program backwards, the plan of a step, and the memory that the plan states.
 *
 * Weights that stay as they are belong to an engine, in the layouts that its kernels want; trained ones are float32, row after row, and
 * never touch the model. One learner is used by one thread; its pool works. */
#ifndef LM_TRAIN_LEARNER_H
#define LM_TRAIN_LEARNER_H

#include "base/pool.h"
#include "kernels/gradients.h"
#include "plan/turnaround.h"
#include "runtime/engine/state.h"

/* One weight that is trained. */
typedef struct lm_trained {
    uint32_t weight;                     /* of the program */
    uint64_t elements;
    float   *value, *gradient, *m, *v;   /* m and v: AdamW's, NULL without */
    float   *looked_up;                  /* of a table that is the head too: the part of its rows' look-ups, so that the order in which
                                            parts are added is the same however rows are cut into calls. Else NULL */
} lm_trained;

/* A text: rows [first, first + rows) of a step, positions from 0. */
typedef struct lm_train_text {
    uint32_t first, rows;
    uint64_t id;                         /* what dropout's draws depend on besides the seed, the step and the position */
} lm_train_text;

typedef struct lm_learner_options {
    uint32_t    rows;                    /* most tokens that are worked on together */
    uint32_t    longest;                 /* tokens of a text */
    uint32_t    checkpoint;              /* layers, or LM_TURN_AUTO */
    uint64_t    limit;                   /* bytes in all; 0: none */
    uint32_t    threads;
    lm_compute  compute;                 /* of the weights that stay */
    const char *cpu;
    bool        optimise;                /* room for AdamW's moments */
    float       dropout;                 /* of what adapters read */
    uint64_t    seed;
    const lm_dtype *types;               /* [n_weights] of the model, to predict with; NULL: as they are stored */
} lm_learner_options;

typedef struct lm_learner {
    const lm_model     *model;
    const lm_program   *program;         /* the model's, or with adapters */
    lm_backward        *backward;
    lm_turn            *turn;
    lm_engine          *engine;
    lm_pool            *pool;
    lm_gradient_kernels kernels;
    lm_learner_options  options;
    lm_trained         *trained;         /* [n_trained], in the program's order */
    uint32_t            n_trained;
    uint32_t           *which;           /* [n_weights]: its number in `trained`, or LM_NONE */
    uint8_t            *slab, *state;    /* values of a step; trained weights, their gradients and moments */
    uint64_t            state_bytes;
    uint64_t            allocated;       /* counted by the allocator: slab, state and rows */
    /* the step */
    uint32_t            n_rows, n_labelled;
    int32_t            *tokens, *labels; /* [rows]; a label below 0: none */
    uint32_t           *positions, *lengths, *labelled;
    lm_train_text      *texts;           /* [rows] */
    uint32_t            n_texts;
    double             *losses;          /* [rows]: of each labelled one */
    float               label_weight;    /* 1 / labelled rows of the whole optimiser step */
    uint64_t            step;            /* optimiser steps done: dropout's draws */
    double              loss;            /* sums over the optimiser step so far */
    uint64_t            rows_file_bytes;
    lm_arena            arena;
} lm_learner;

/* What a learner takes, before it is made. */
typedef struct lm_learner_memory {
    uint64_t base;                       /* weights that stay: packed; mapped ones are not counted */
    uint64_t mapped;
    uint64_t state;                      /* trained weights, gradients, moments */
    uint64_t activations, scratch;       /* of a step */
    uint64_t total;                      /* without mapped */
    uint32_t checkpointed;               /* layers */
} lm_learner_memory;

/* `program` is the model's own or begins with its weights; `wanted` [n_weights]. */
lm_status lm_learner_predict(const lm_model *m, const lm_program *program, const bool *wanted, const lm_learner_options *o,
                             lm_learner_memory *out, lm_error *e);
lm_status lm_learner_new(const lm_model *m, const lm_program *program, const bool *wanted, const lm_learner_options *o, lm_learner **out,
                         lm_error *e);
void      lm_learner_free(lm_learner *l);
lm_learner_memory lm_learner_allocated(const lm_learner *l);

/* Forget gradients and losses: an optimiser step begins, whose labels are `labels` in all. */
void lm_learner_begin(lm_learner *l, uint64_t labels);
/* The rows of some texts, one after another; labels as above. Gradients are added. */
void lm_learner_rows(lm_learner *l, const int32_t *tokens, const int32_t *labels, const lm_train_text *texts, uint32_t n_texts);
/* After the last of them: gradients are whole. */
void lm_learner_end(lm_learner *l);
/* The losses of such rows, added up; nothing is differentiated. */
double lm_learner_loss(lm_learner *l, const int32_t *tokens, const int32_t *labels, const lm_train_text *texts, uint32_t n_texts);

/* ---- inside ---- */

/* Where an operand of a step lies. */
typedef struct lm_operand {
    float   *at;
    uint64_t row;                        /* floats between rows */
} lm_operand;

/* One operation's forward or reverse, on rows. */
typedef struct lm_frame {
    lm_learner       *l;
    const lm_node    *node;
    const lm_reverse *reverse;
    uint32_t          rows;
    bool              tail;
    lm_operand        in[LM_MAX_INPUTS], out, kept, dout, din[LM_MAX_INPUTS];
} lm_frame;

void lm_train_forward(lm_frame *f);
void lm_train_reverse(lm_frame *f);
void lm_train_experts(lm_frame *f);
void lm_train_experts_back(lm_frame *f);
void lm_train_attention(lm_frame *f);
void lm_train_attention_back(lm_frame *f);
void lm_train_route_back(const lm_route_spec *r, const float *logits, const float *out, const float *dout, float *dlogits, bool first,
                         const lm_row_kernels *k);

/* Bytes of scratch that any operation of the program needs: for all workers together, for each. */
void lm_train_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *k, uint64_t *shared, uint64_t *worker);

/* Items [0, n) in chunks of `grain`, by the pool: each item once, by any worker. */
typedef void (*lm_items)(void *arg, uint64_t from, uint64_t to, unsigned worker);
void lm_train_parallel(lm_learner *l, lm_items items, void *arg, uint64_t n, uint64_t grain);

/* Scratch. */
static inline uint8_t *lm_shared_scratch(const lm_learner *l)
{
    return l->slab + l->turn->shared;
}

static inline void *lm_worker_scratch(const lm_learner *l, unsigned worker)
{
    return l->slab + l->turn->workers + worker * ((l->turn->options.worker + 63) & ~UINT64_C(63));
}

/* ---- weights ---- */

/* A trained weight's numbers or their gradient; NULL where it is not trained. */
float *lm_trained_value(const lm_learner *l, uint32_t weight);
float *lm_trained_gradient(const lm_learner *l, uint32_t weight);
/* A vector, whoever owns it; NULL for LM_NONE. */
const float *lm_vector_of(const lm_learner *l, uint32_t weight);
/* How a matrix is multiplied: one of those of LM_EXPERTS and LM_HEADS, or the only one. */
typedef struct lm_matrix {
    const lm_matmul *matmul;
    const void      *w;
    uint64_t         rows, cols, row_bytes;
    bool             stored;             /* as rows, packed on the way */
} lm_matrix;
lm_matrix lm_matrix_of(const lm_learner *l, uint32_t weight, uint64_t which);
const lm_matmul *lm_matrix_kernel(const lm_learner *l, const lm_plan *plan, const lm_kernels *k, uint32_t weight);
/* Rows [from, to) of it as float32, one after another. */
void lm_matrix_rows(const lm_learner *l, uint32_t weight, uint64_t which, uint64_t from, uint64_t to, float *out);
/* y [n] = x W^T (+ bias): x as packed for the kernel; outputs are divided. */
void lm_matrix_multiply(lm_learner *l, const lm_matrix *m, const uint8_t *x, uint64_t x_stride, uint64_t n, lm_operand y,
                        const float *bias);

enum { LM_TILE_FLOATS = 4 << 20 };       /* of a matrix that is unpacked at a time, or one group of rows */

#endif
