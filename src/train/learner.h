/* learner.h - a model in training: its backward program, the plan of a step, and the memory of that plan.
 *
 * Frozen weights belong to an engine, in the layouts of its kernels. Trained weights are float32, row by row,
 * and never modify the model. A learner is used by one thread, which runs its thread pool. */
#ifndef LM_TRAIN_LEARNER_H
#define LM_TRAIN_LEARNER_H

#include "base/os/pool.h"
#include "kernels/gradients.h"
#include "plan/turnaround.h"
#include "runtime/engine/state.h"
#include "runtime/ops/rowops.h"

/* A trained weight. */
typedef struct lm_trained {
    uint32_t weight;                     /* of the program */
    uint64_t elements;
    float   *value, *gradient, *m, *v;   /* m and v: moments of AdamW; NULL without AdamW */
    float   *looked_up;                  /* for an embedding tied to the head: the gradient from look-ups,
                                            separate so that the order of
                                          * additions does not depend on how rows are divided into calls.
                                          * Otherwise NULL */
} lm_trained;

/* A text: rows [first, first + rows) of a step; positions start at 0. */
typedef struct lm_train_text {
    uint32_t first, rows;
    uint64_t id;                         /* determines the draws of dropout, together with seed, step and
                                            position */
} lm_train_text;

typedef struct lm_learner_options {
    uint32_t    rows;                    /* maximum tokens processed together */
    uint32_t    longest;                 /* maximum tokens per text */
    uint32_t    checkpoint;              /* number of layers, or LM_TURN_AUTO */
    uint64_t    limit;                   /* total bytes; 0: no limit */
    uint32_t    threads;
    lm_compute  compute;                 /* of the frozen weights */
    const char *cpu;
    bool        optimise;                /* allocate AdamW's moments */
    float       dropout;                 /* of the inputs of adapters */
    uint64_t    seed;
    const lm_dtype *types;               /* [n_weights] of the model, for predictions; NULL: as stored */
} lm_learner_options;

typedef struct lm_learner {
    const lm_model     *model;
    const lm_program   *program;         /* the model's program, or one with adapters */
    lm_backward        *backward;
    lm_train_plan      *turn;
    lm_engine          *engine;
    lm_pool            *pool;
    lm_gradient_kernels kernels;
    lm_learner_options  options;
    lm_trained         *trained;         /* [n_trained], in program order */
    uint32_t            n_trained;
    uint32_t           *which;           /* [n_weights]: index in `trained`, or LM_NONE */
    uint8_t            *slab, *state;    /* values of a step; trained weights, their gradients and moments */
    uint64_t            state_bytes;
    uint64_t            allocated;       /* counted by the allocator: slab, state and rows */
    /* the current step */
    uint32_t            n_rows, n_labelled;
    int32_t            *tokens, *labels; /* [rows]; a negative label: none */
    uint32_t           *positions, *lengths, *labelled;
    lm_train_text      *texts;           /* [rows] */
    uint32_t            n_texts;
    double             *losses;          /* [rows]: per labelled row */
    float               label_weight;    /* 1 / labelled rows of the optimiser step */
    uint64_t            step;            /* completed optimiser steps, for the draws of dropout */
    double              loss;            /* sum over the current optimiser step */
    uint64_t            rows_file_bytes;
    lm_arena            arena;
} lm_learner;

/* The memory of a learner, before it is created. */
typedef struct lm_learner_memory {
    uint64_t base;                       /* frozen weights: packed; mapped ones are not counted */
    uint64_t mapped;
    uint64_t state;                      /* trained weights, gradients, moments */
    uint64_t activations, scratch;       /* of a step */
    uint64_t total;                      /* without mapped */
    uint32_t checkpointed;               /* layers */
} lm_learner_memory;

/* `program` is the model's program, or begins with its weights; `wanted` [n_weights]. */
lm_status lm_learner_predict(const lm_model *m, const lm_program *program, const bool *wanted,
                             const lm_learner_options *o, lm_learner_memory *out, lm_error *e);
lm_status lm_learner_new(const lm_model *m, const lm_program *program, const bool *wanted,
                         const lm_learner_options *o, lm_learner **out, lm_error *e);
void      lm_learner_free(lm_learner *l);
lm_learner_memory lm_learner_allocated(const lm_learner *l);

/* Begin an optimiser step: clear gradients and losses. `labels`: their total number in this step. */
void lm_learner_begin(lm_learner *l, uint64_t labels);
/* Process the rows of some texts, one after another; labels as above. Gradients accumulate. */
void lm_learner_rows(lm_learner *l, const int32_t *tokens, const int32_t *labels, const lm_train_text *texts,
                     uint32_t n_texts);
/* Finish the gradients after the last rows. */
void lm_learner_end(lm_learner *l);
/* Return the sum of the losses of such rows, without gradients. */
double lm_learner_loss(lm_learner *l, const int32_t *tokens, const int32_t *labels,
                       const lm_train_text *texts, uint32_t n_texts);

/* ---- internals ---- */

/* The forward or reverse of one operation on rows. */
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
void lm_train_select(lm_frame *f);
/* Sparse attention of one head: rows [from, to) of a text, which see only chosen keys; the gradients of their
 * queries; those that keys and values [from, to) get from all such rows of the text (sparse.c). */
typedef struct lm_sparse_attention_args {
    const lm_text_attention   *a;
    const lm_attention_spec   *spec;
    lm_operand                 chosen;   /* the choice of this head, from row 0 of the text on */
    lm_operand                 entries, dentries;    /* of compressed attention, from that row on */
    const lm_gradient_kernels *kernels;
} lm_sparse_attention_args;
void lm_sparse_attend(const lm_sparse_attention_args *x, uint32_t from, uint32_t to);
void lm_sparse_back_q(const lm_sparse_attention_args *x, uint32_t from, uint32_t to);
void lm_sparse_back_kv(const lm_sparse_attention_args *x, uint32_t from, uint32_t to);
void lm_train_convolve(lm_frame *f);
void lm_train_convolve_back(lm_frame *f);
void lm_train_recur(lm_frame *f);
void lm_train_recur_back(lm_frame *f);
void lm_train_compress(lm_frame *f);
void lm_train_compress_back(lm_frame *f);
void lm_train_scan_back(lm_frame *f);
void lm_train_gated_back(lm_frame *f);

/* Compute the maximum scratch bytes of any operation of the program: shared by all workers, and per
 * worker. */
void lm_train_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *k, uint64_t *shared,
                      uint64_t *worker);

/* Process items [0, n) in chunks of `grain` with the pool: each item once, by any worker. */
typedef void (*lm_items)(void *arg, uint64_t from, uint64_t to, unsigned worker);
void lm_train_parallel(lm_learner *l, lm_items items, void *arg, uint64_t n, uint64_t grain);

/* Return the shared scratch, or that of a worker. */
static inline uint8_t *lm_shared_scratch(const lm_learner *l)
{
    return l->slab + l->turn->shared;
}

static inline void *lm_worker_scratch(const lm_learner *l, unsigned worker)
{
    return l->slab + l->turn->workers + worker * ((l->turn->options.worker + 63) & ~UINT64_C(63));
}

/* ---- weights ---- */

/* Return a trained weight's values or gradient; NULL if it is not trained. */
float *lm_trained_value(const lm_learner *l, uint32_t weight);
float *lm_trained_gradient(const lm_learner *l, uint32_t weight);
/* Return a vector, trained or not; NULL for LM_NONE. */
const float *lm_vector_of(const lm_learner *l, uint32_t weight);
/* A matrix in the form of its product: one of several for LM_EXPERTS and LM_HEADS, otherwise the only one. */
typedef struct lm_matrix {
    const lm_matmul *matmul;
    const void      *w;
    uint64_t         rows, cols, row_bytes;
    bool             stored;             /* stored as rows, which the product packs */
} lm_matrix;
lm_matrix lm_matrix_of(const lm_learner *l, uint32_t weight, uint64_t which);
const lm_matmul *lm_matrix_kernel(const lm_learner *l, const lm_plan *plan, const lm_kernels *k,
                                  uint32_t weight);
/* Read rows [from, to) as float32, consecutively. */
void lm_matrix_rows(const lm_learner *l, uint32_t weight, uint64_t which, uint64_t from, uint64_t to,
                    float *out);
/* y [n] = scale (x W^T + bias); x is packed for the kernel; workers divide the outputs. */
void lm_matrix_multiply(lm_learner *l, const lm_matrix *m, const uint8_t *x, uint64_t x_stride, uint64_t n,
                        lm_operand y, const float *bias, float scale);

enum { LM_TILE_FLOATS = 4 << 20 };       /* of a matrix unpacked at a time, or a group of rows */

#endif
