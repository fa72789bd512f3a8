/* turnaround.h - the plan of a training step: a program forwards, the loss, and backwards, in one list, with every value's place in one
 * slab.
 *
 * Values live across the turn: what a reverse reads is kept from the forward, or made again. Of a layer that is *checkpointed* only what
 * others read is kept; before its reverses run, those of its operations that they need run again, with the same bits, as the forward's
 * kernels give the same result each time. As many layers are checkpointed as the limit demands, from the first on: the fewest.
 *
 * Arithmetic only, as in plan.h: exactly this is allocated. */
#ifndef LM_PLAN_TURNAROUND_H
#define LM_PLAN_TURNAROUND_H

#include "plan/plan.h"
#include "program/reverse.h"

typedef enum lm_turn_kind {
    LM_TURN_FORWARD,
    LM_TURN_AGAIN,               /* an operation of a checkpointed layer, once more */
    LM_TURN_REVERSE,
} lm_turn_kind;

typedef struct lm_turn_step {
    lm_turn_kind kind;
    uint32_t     index;          /* operation; LM_TURN_REVERSE: of lm_backward.nodes */
} lm_turn_step;

/* Layers to checkpoint: as the limit decides. */
#define LM_TURN_AUTO UINT32_MAX

typedef struct lm_turn_options {
    uint32_t rows;               /* most rows of a step */
    uint32_t piece;              /* rows of the tail at a time */
    uint32_t checkpoint;         /* layers, or LM_TURN_AUTO */
    uint64_t limit;              /* bytes of the slab; 0: none */
    uint64_t shared, worker;     /* bytes of scratch: for all workers together, for each */
    uint32_t workers;
} lm_turn_options;

typedef struct lm_turn {
    const lm_backward *backward;
    lm_turn_options    options;
    lm_turn_step      *steps;    uint32_t n_steps;
    lm_buffer         *buffers;  uint32_t n_buffers;
    uint32_t          *values[2];        /* [n_values]: buffer of each as it is made first, and again; LM_NONE */
    uint32_t          *kept[2];          /* [n_nodes]: of what lm_reverse_keeps says */
    uint32_t          *gradients;        /* [n_values] */
    uint32_t           hidden, hidden_gradient;          /* the tail's piece of what the head reads */
    uint32_t          *tables;           /* [n_ropes]: cosines and sines of every row's position */
    uint32_t           checkpointed;     /* layers */
    uint64_t           activations;      /* bytes of all buffers */
    uint64_t           shared, workers;  /* where scratch begins */
    uint64_t           bytes;            /* of the slab */
    lm_arena           arena;
} lm_turn;

/* LM_NO_FIT, with what the smallest plan needs, when no plan is within the limit. `b` must outlive it. Freed with lm_turn_free. */
lm_status lm_turn_new(const lm_backward *b, const lm_turn_options *o, lm_turn **out, lm_error *e);
void      lm_turn_free(lm_turn *t);

/* The buffer of a value for an operation's step of a kind: as it was made first, or again. */
uint32_t lm_turn_value(const lm_turn *t, lm_turn_kind kind, const lm_node *n, lm_value v);
uint32_t lm_turn_kept(const lm_turn *t, lm_turn_kind kind, uint32_t node);

/* Steps, buffers and bytes, for people. */
void lm_turn_print(const lm_turn *t, lm_text *out);

#endif
