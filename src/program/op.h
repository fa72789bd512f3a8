/* op.h - the description of an operation: what other rooms must know about it, in one place.
 *
 * Each operation has a file in program/ops/ that contains its description and the functions that record it.
 * Descriptions are constant. Any thread. */
#ifndef LM_PROGRAM_OP_H
#define LM_PROGRAM_OP_H

#include <stddef.h>

#include "program/reverse.h"

/* A number in lm_node that distinguishes operations of the same kind. */
typedef enum lm_number_kind { LM_NUMBER_U32, LM_NUMBER_FLOAT, LM_NUMBER_BOOL, LM_NUMBER_ACT } lm_number_kind;

typedef struct lm_op_number {
    const char    *name;         /* "scale.factor"; the last word is its name in `form` and `expression` */
    size_t         offset;       /* in lm_node */
    lm_number_kind kind;
    const char    *differs;      /* what differs if two models differ in it: "multipliers"; NULL: nothing that
                                    is not compared elsewhere (sizes) */
} lm_op_number;

/* A row of lm_op.numbers: LM_NODE_NUMBER(U32, columns.offset, NULL). */
#define LM_NODE_NUMBER(kind, member, differs) \
    { #member, offsetof(lm_node, member), LM_NUMBER_##kind, differs }

/* Inputs of an operation, and its output, as bits. */
enum { LM_IN0 = 1, LM_IN1 = 2, LM_IN2 = 4, LM_IN3 = 8, LM_IN4 = 16, LM_OUT = 32 };

typedef struct lm_op {
    const char         *name;                        /* "rms_norm" */
    const char         *weights[LM_MAX_WEIGHTS];     /* parameter names in order, NULL past the last */
    const lm_op_number *numbers;                     /* up to a row without a name; NULL: none */

    /* Compute the cost of one row; `out` is zero. */
    void (*cost)(const lm_program *p, const lm_node *n, lm_cost *out);
    /* Append the attributes in readable form: "eps 1e-05", "24 heads of 128, 8 kv"; NULL: it has none. */
    void (*describe)(const lm_program *p, const lm_node *n, lm_text *out);

    /* ---- the reverse (reverse.h) ---- */
    uint8_t trains_inputs;               /* inputs that have a gradient, as bits */
    uint8_t trains_weights;              /* weights that have a gradient, as bits by index */
    uint8_t reverse_reads;               /* values that the reverse reads besides gradients */
    uint8_t reverse_reads_to_train;      /* those that it reads too if a weight is trained */
    uint8_t reverse_flops;               /* per lane of the output; 0: as many as the forward pass */
    /* Set what differs from this: mult_adds, flops and the terms per key; NULL: nothing. */
    void  (*reverse_cost)(const lm_node *n, const lm_reverse *r, const lm_cost *forward, lm_cost *out);

    /* ---- the plan ---- */
    uint8_t all_rows;                    /* inputs that are needed for every row, as bits: what is stored */
    bool    state;                       /* it has a state (lm_node.state), so every row is computed */
    bool    in_place;                    /* its output may replace its first input */
    bool    lanewise;                    /* lane i of the output depends only on lane i of the inputs */
    const char *work;                    /* its kind of work in profiles: "norms"; NULL: "other rows" */

    /* ---- how it is explained ---- */
    const char *formula;                 /* in the symbols of docs/study/glossary.md; shown in the user's
                                            language */
    const char *formula_without_bias;    /* if weights[1] is absent; NULL: the same */
    const char *form;                    /* in a formula of the model, {x} for its input: "|{x}|"; NULL:
                                            study/facts/forms.c has its own rule, or none */
    const char *expression;              /* in PyTorch and NumPy ($ is the library): {0} {1} inputs, {w0}
                                            {w1} weights, {width} lanes of the output, and numbers by name;
                                            NULL: study/listing/listing_line.c has its own rule */
    const char *helper;                  /* a function that the expression calls: "def abs(x): …"; or NULL */
} lm_op;

const lm_op *lm_op_of(lm_op_code code);

/* ---- numbers ---- */

/* Return whether all numbers of two operations of the same kind are equal. */
bool lm_op_same(const lm_node *a, const lm_node *b);

/* Return lm_op_number.differs of the first number in which they differ, floats by more than 1e-6 of their
 * value; NULL: none. */
const char *lm_op_differs(const lm_node *a, const lm_node *b);

/* Append the number with this last word, `length` bytes long; floats with `digits` significant digits. */
void lm_op_put_number(const lm_node *n, const char *word, size_t length, int digits, lm_text *out);

static inline uint64_t lm_width_in(const lm_program *p, const lm_node *n)
{
    return n->n_in ? p->values[n->in[0]].width : 0;
}

static inline uint64_t lm_width_out(const lm_program *p, const lm_node *n)
{
    return p->values[n->out].width;
}

#endif
