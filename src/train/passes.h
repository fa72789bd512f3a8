/* passes.h - declarations shared by the operations of a training step: products with gradients, dropout. */
#ifndef LM_TRAIN_PASSES_H
#define LM_TRAIN_PASSES_H

#include "train/learner.h"

/* Multiply with all workers: each computes blocks of C. */
void lm_train_gemm(lm_learner *l, const lm_gemm *g);

/* dx += scale dy W: W is rows [from, to) of all matrices of a weight, counted consecutively; dy has as many
 * lanes; n rows. scale: 1 if W is trained. */
void lm_train_through(lm_learner *l, uint32_t weight, uint64_t from, uint64_t to, lm_operand dy,
                      lm_operand dx, uint64_t n, float scale);

/* Set `r` to the rows of an operation on single rows. */
void lm_train_rows(const lm_frame *f, lm_rows *r);

void lm_train_clear(lm_learner *l, lm_operand x, uint64_t rows, uint64_t n);

/* Return the scratch of a mixture for `rows` rows, in addition to the tile for unpacked weights. */
uint64_t lm_mixture_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *kernels,
                            const lm_node *n, uint64_t rows);

/* ---- linear recurrences (recurrence.c) ---- */

/* The rows of one text, and its gradients as in lm_rows_back. */
typedef struct lm_recurrence_rows {
    const lm_recurrence *spec;
    lm_operand           in[5], dout, din[5];
    const bool          *first;
    uint64_t             rows;
} lm_recurrence_rows;

/* Compute the gradients of all heads that read a key head. `scratch`: lm_recurrence_scratch bytes, enough for
 * any smaller number of rows too. */
void     lm_recurrence_back(const lm_recurrence_rows *r, uint32_t key_head, float *scratch);
uint64_t lm_recurrence_scratch(const lm_recurrence *r, uint64_t rows);

/* ---- selective_scan (scan.c) ---- */

/* Compute the gradients of x and delta of a lane, and add that of its entries of the weight to d_rates, if
 * not NULL; then those of C and B of entry n. `rates`: the weight. `scratch`: lm_scan_scratch bytes. */
void     lm_scan_back_lane(const lm_recurrence_rows *r, const float *rates, float *d_rates, uint64_t lane,
                           float *scratch);
void     lm_scan_back_entry(const lm_recurrence_rows *r, const float *rates, uint64_t n, float *scratch);
uint64_t lm_scan_scratch(const lm_recurrence *r, uint64_t rows);

/* ---- gated_recurrence (gated.c) ---- */

/* The same for x, the gate and the weight of a lane. */
void     lm_gated_back_lane(const lm_recurrence_rows *r, float param, float *d_param, uint64_t lane,
                            float *scratch);
uint64_t lm_gated_scratch(uint64_t rows);

/* Return whether dropout applies to an adapter's input; and apply it to row `row` of the step. */
bool lm_train_drops(const lm_learner *l, uint32_t weight);
void lm_train_drop(const lm_learner *l, uint32_t weight, uint64_t row, float *x, uint64_t n);

#endif
