/* reverse.h - a program backwards: which gradients exist, in which order they are made, and what each needs to know.
 *
 * Reverse-mode differentiation (Griewank and Walther, 2008) as a transform of a program. Every operation has its reverse beside its
 * forward: it reads the gradient of what the operation made, and gives each input that depends on something trained its part, and
 * each trained weight its sum over rows. Contributions to one value are added in the order in which they are made, last reader first.
 *
 * Nothing below the lowest trained weight is differentiated. The head and what follows it run in pieces of a few rows, each from hidden
 * states to the loss and back, so that logits of all rows never exist: those reverses are the `tail`.
 *
 * The choice of a router has no gradient; the weights of the chosen experts do. */
#ifndef LM_PROGRAM_REVERSE_H
#define LM_PROGRAM_REVERSE_H

#include "program/program.h"

typedef struct lm_reverse {
    uint32_t node;                       /* the operation; LM_NONE: the loss, which all begin with */
    bool     tail;
    bool     into[LM_MAX_INPUTS];        /* this input gets a part */
    bool     first[LM_MAX_INPUTS];       /* the first that its gradient gets: written; else added */
    bool     trains[LM_MAX_WEIGHTS];     /* this weight is trained */
} lm_reverse;

typedef struct lm_backward {
    const lm_program *program;           /* which must outlive it */
    bool       *trained;                 /* [n_weights] */
    bool       *has;                     /* [n_values]: a gradient is made of it */
    uint32_t    tail;                    /* first operation of the tail: the head */
    lm_reverse *nodes;                   /* in the order in which they run */
    uint32_t    n_nodes;
    uint32_t    n_trained;
    uint64_t    trained_elements;
    lm_arena    arena;
} lm_backward;

/* The reverse of `p` for the weights that are wanted ([n_weights]). LM_USAGE where none is, or the loss depends on none of them;
 * LM_UNSUPPORTED, with its name, for a wanted weight that has no gradient. Freed with lm_backward_free. */
lm_status lm_program_backward(const lm_program *p, const bool *wanted, lm_backward **out, lm_error *e);
void      lm_backward_free(lm_backward *b);

/* Forward values that a reverse reads, besides the gradient: at most LM_MAX_READS. */
enum { LM_MAX_READS = 4 };
uint32_t lm_reverse_reads(const lm_backward *b, const lm_reverse *r, lm_value reads[LM_MAX_READS]);

/* Lanes of a row that the forward leaves behind for the reverse besides values: attention's logarithm of each head's sum. */
uint32_t lm_reverse_keeps(const lm_program *p, const lm_node *n);

/* The cost of one row of a reverse, as lm_node_cost counts. */
void lm_reverse_cost(const lm_backward *b, const lm_reverse *r, lm_cost *out);

/* One line per reverse, for people: what it reads, what it makes, which weights it sums for. */
void lm_backward_print(const lm_backward *b, lm_text *out);

#endif
