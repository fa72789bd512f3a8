/* passes.h - what the operations of a training step share: products with gradients, dropout. */
#ifndef LM_TRAIN_PASSES_H
#define LM_TRAIN_PASSES_H

#include "train/learner.h"

/* A product by all workers: blocks of C, each by one of them. */
void lm_train_gemm(lm_learner *l, const lm_gemm *g);

/* dx += dy W: rows [from, to) of all matrices of a weight, one after another, and as many lanes of dy; n rows. */
void lm_train_through(lm_learner *l, uint32_t weight, uint64_t from, uint64_t to, lm_operand dy, lm_operand dx, uint64_t n);

void lm_train_clear(lm_learner *l, lm_operand x, uint64_t rows, uint64_t n);

/* Scratch of a mixture for so many rows, besides the tile that weights are unpacked to. */
uint64_t lm_mixture_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *kernels, const lm_node *n, uint64_t rows);

/* Whether an adapter's input is dropped, and the row of the step that it is. */
bool lm_train_drops(const lm_learner *l, uint32_t weight);
void lm_train_drop(const lm_learner *l, uint32_t weight, uint64_t row, float *x, uint64_t n);

#endif
