/* turnaround.h - the plan of a training step: the forward pass, the loss and the backward pass of a program
 * in one list, with all values in one slab.
 *
 * Values that a reverse reads are kept from the forward pass, or recomputed. For a *checkpointed* layer, only
 * values that other layers read are kept; before its reverses run, the operations that they need run again,
 * with bit-identical results, because the kernels of the forward pass are deterministic. The plan checkpoints
 * the smallest number of layers, from the first on, that satisfies the limit.
 *
 * A plan is pure arithmetic, as in plan.h: exactly its sizes are allocated. */
#ifndef LM_PLAN_TURNAROUND_H
#define LM_PLAN_TURNAROUND_H

#include "plan/plan.h"
#include "program/reverse.h"

typedef enum lm_turn_kind {
    LM_TURN_FORWARD,
    LM_TURN_AGAIN,               /* an operation of a checkpointed layer, recomputed */
    LM_TURN_REVERSE,
} lm_turn_kind;

typedef struct lm_turn_step {
    lm_turn_kind kind;
    uint32_t     index;          /* operation; LM_TURN_REVERSE: index into lm_backward.nodes */
} lm_turn_step;

/* The limit determines the number of checkpointed layers. */
#define LM_TURN_AUTO UINT32_MAX

typedef struct lm_train_plan_options {
    uint32_t rows;               /* maximum rows of a step */
    uint32_t piece;              /* rows of the tail at a time */
    uint32_t checkpoint;         /* layers, or LM_TURN_AUTO */
    uint64_t limit;              /* bytes of the slab; 0: none */
    uint64_t shared, worker;     /* bytes of scratch: for all workers together, per worker */
    uint32_t workers;
} lm_train_plan_options;

typedef struct lm_train_plan {
    const lm_backward *backward;
    lm_train_plan_options options;
    lm_turn_step      *steps;    uint32_t n_steps;
    lm_buffer         *buffers;  uint32_t n_buffers;
    uint32_t          *values[2];        /* [n_values]: buffers of the first computation and of the
                                            recomputation; LM_NONE: none */
    uint32_t          *kept[2];          /* [n_nodes]: buffers of the lanes that lm_reverse_keeps counts, in
                                            the same way */
    uint32_t          *gradients;        /* [n_values]: buffers */
    uint32_t           hidden, hidden_gradient;          /* buffers of one piece of the head's input, for the
                                                            tail */
    uint32_t          *tables;           /* [n_ropes]: buffers of the cosines and sines of every row's
                                            position */
    uint32_t           checkpointed;     /* layers */
    uint64_t           activations;      /* bytes of all buffers */
    uint64_t           shared, workers;  /* offsets of the shared scratch and of the workers' scratch */
    uint64_t           bytes;            /* of the slab */
    lm_arena           arena;
} lm_train_plan;

/* Make a plan. LM_NO_FIT, with the size of the smallest plan, if no plan is within the limit. `b` must
 * outlive it. Free it with lm_turn_free. */
lm_status lm_turn_new(const lm_backward *b, const lm_train_plan_options *o, lm_train_plan **out, lm_error *e);
void      lm_turn_free(lm_train_plan *t);

/* Return the buffer of a value, or of the lanes kept for the reverse, for a step of this kind: that of the
 * first computation or of the recomputation. */
uint32_t lm_turn_value(const lm_train_plan *t, lm_turn_kind kind, const lm_node *n, lm_value v);
uint32_t lm_turn_kept(const lm_train_plan *t, lm_turn_kind kind, uint32_t node);

#endif
