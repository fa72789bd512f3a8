/* rowops.h - the arithmetic of operations on single rows: forward, for the engine and for training, and
 * reverse. Operations that need more than a row and its weights (products, attention, experts, look-ups) have
 * functions of their own in the engine and in training.
 *
 * All functions process rows [from, to), depend on each row alone, allocate nothing and cannot fail. Any
 * thread, on different rows. */
#ifndef LM_RUNTIME_ROWOPS_H
#define LM_RUNTIME_ROWOPS_H

#include "kernels/gradients.h"
#include "program/program.h"

/* Rows of a value, or of its gradient. */
typedef struct lm_operand {
    float   *at;                         /* row 0; NULL: it is not needed */
    uint64_t row;                        /* floats between rows */
} lm_operand;

typedef struct lm_rows {
    const lm_program     *program;
    const lm_node        *node;
    const lm_row_kernels *kernels;
    lm_operand            in[LM_MAX_INPUTS], out;        /* `out` may be in[0] if the operation is in place */
    const float          *weights[LM_MAX_WEIGHTS];       /* vectors; NULL: absent */
    const uint32_t       *positions;                     /* of all rows of the pass */
    const int32_t        *tokens;                        /* the same */
    const uint32_t       *numbers;                       /* the number of row i in the pass; NULL: i */
    lm_operand            rotation;                      /* rope: cosines, then sines, by number */
} lm_rows;

typedef struct lm_rows_back {
    lm_rows                    rows;     /* values that the reverse reads */
    const lm_gradient_kernels *kernels;
    lm_operand                 dout, din[LM_MAX_INPUTS];
    const bool                *first;    /* [LM_MAX_INPUTS]: write the input's gradient; else add to it */
    float                     *dw[LM_MAX_WEIGHTS];       /* NULL: not trained */
} lm_rows_back;

typedef struct lm_row_op {
    void (*forward)(const lm_rows *r, uint64_t from, uint64_t to);
    /* Compute the gradients of the inputs. `scratch`: as many rows of the output as `scratch_rows`. */
    void (*reverse)(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch);
    unsigned scratch_rows;
    /* Add to the gradients of the weights, in the order of rows; NULL: there are no weights. */
    void (*reverse_weights)(const lm_rows_back *b, uint64_t from, uint64_t to);
} lm_row_op;

/* [LM_OP_COUNT]; NULL: the operation has functions of its own. */
extern const lm_row_op *const lm_row_ops[LM_OP_COUNT];

/* Set `a`, except its state, at_start and number of rows, to the rows from `row` on and block `unit` of the
 * state of linear_recurrence, selective_scan or gated_recurrence. `in`: its inputs; units are counted over
 * all heads; `rates`: the weight of the last two. */
void lm_recurrence_block(const lm_recurrence *r, uint64_t unit, const lm_operand in[5], lm_operand out,
                         const float *rates, uint64_t row, lm_recurrence_args *a);

/* Return the row of an embedding for a token. A table besides the embedding may have fewer rows than there
 * are tokens; the others read its first one. */
static inline uint64_t lm_row_of_token(const lm_program *p, const lm_node *n, uint64_t token)
{
    return token < p->weights[n->weights[0]].dims[0] ? token : 0;
}

static inline float *lm_row_of(lm_operand o, uint64_t i)
{
    return o.at + i * o.row;
}

static inline uint64_t lm_lanes_of(const lm_rows *r, lm_value v)
{
    return r->program->values[v].width;
}

static inline uint64_t lm_row_number(const lm_rows *r, uint64_t i)
{
    return r->numbers ? r->numbers[i] : i;
}

/* to = factor * x if `first`, else to += factor * x. */
static inline void lm_put_gradient(float *to, const float *x, float factor, uint64_t n, bool first)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = first ? factor * x[i] : to[i] + factor * x[i];
}

/* Return the choice of its row that an assignment of a mixture is: row [assignments], place [rows][k]. */
static inline uint32_t lm_choice_of(const uint32_t *row, const uint32_t *place, uint32_t k,
                                    uint64_t assignment)
{
    uint32_t i = 0;

    while (i + 1 < k && place[(uint64_t)row[assignment] * k + i] != assignment)
        i++;
    return i;
}

#endif
