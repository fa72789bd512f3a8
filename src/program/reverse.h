/* reverse.h - the backward pass of a program: the gradients, the order in which they are computed, and the
 * data that each needs.
 *
 * Reverse-mode differentiation (Griewank and Walther, 2008) is a transform of a program. Every operation has
 * a reverse: it reads the gradient of the operation's output and computes a contribution for each input that
 * depends on a trained weight, and the sum over rows for each trained weight. Contributions to one value are
 * added in the order in which they are computed, last reader first.
 *
 * Nothing below the lowest trained weight is differentiated. The head and the operations after it run in
 * pieces of a few rows, each from hidden states to the loss and back, so that at no time the logits of all
 * rows exist: those reverses are the `tail`.
 *
 * The choice of a router has no gradient; the weights of the chosen experts do. */
#ifndef LM_PROGRAM_REVERSE_H
#define LM_PROGRAM_REVERSE_H

#include "program/program.h"

typedef struct lm_reverse {
    uint32_t node;                       /* the operation; LM_NONE: the loss, which is always first */
    bool     tail;
    bool     into[LM_MAX_INPUTS];        /* this input gets a contribution */
    bool     first[LM_MAX_INPUTS];       /* the first contribution to its gradient: written, not added */
    bool     trains[LM_MAX_WEIGHTS];     /* this weight is trained */
} lm_reverse;

typedef struct lm_backward {
    const lm_program *program;           /* which must outlive it */
    bool       *trained;                 /* [n_weights] */
    bool       *has;                     /* [n_values]: its gradient is computed */
    uint32_t    tail;                    /* first operation of the tail: the head */
    lm_reverse *nodes;                   /* in execution order */
    uint32_t    n_nodes;
    uint32_t    n_trained;
    uint64_t    trained_elements;
    lm_arena    arena;
} lm_backward;

/* Make the backward pass of `p` for the weights in `wanted` ([n_weights]). LM_USAGE if there are none, or if
 * the loss depends on none of them; LM_UNSUPPORTED, with the name, for a wanted weight that has no gradient.
 * Free it with lm_backward_free. */
lm_status lm_program_backward(const lm_program *p, const bool *wanted, lm_backward **out, lm_error *e);
void      lm_backward_free(lm_backward *b);

/* Return the number of forward values that a reverse reads besides the gradient, at most LM_MAX_READS, and
 * the values in `reads`. */
enum { LM_MAX_READS = LM_MAX_INPUTS + 1 };
uint32_t lm_reverse_reads(const lm_backward *b, const lm_reverse *r, lm_value reads[LM_MAX_READS]);

/* Return the lanes per row that the forward pass stores for the reverse besides values: attention's logarithm
 * of each head's sum. */
uint32_t lm_reverse_keeps(const lm_program *p, const lm_node *n);

/* Compute the cost of one row of a reverse, counted like lm_node_cost. */
void lm_reverse_cost(const lm_backward *b, const lm_reverse *r, lm_cost *out);

/* Append one readable line per reverse: the values it reads, the gradients it computes, the weights it
 * trains. */
void lm_backward_print(const lm_backward *b, lm_text *out);

#endif
