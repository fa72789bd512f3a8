/* paired.h - the weights of a model as numbers, and those of another in the same order: whatever their containers keep together, apart, in
 * another order or type. Weights are found by their paths in the programs. */
#ifndef LM_API_PAIRED_H
#define LM_API_PAIRED_H

#include "base/pool.h"
#include "export/stored_matrices.h"
#include "runtime/engine/model.h"

typedef struct lm_pair {
    const lm_model *a, *b;           /* b: NULL of one model alone */
    lm_matrices    *of_a, *of_b;
    uint32_t       *in_b;            /* [weights of a]: the weight of b, or LM_NONE */
    lm_row_order   *order;           /* [weights of a]: rows of a GGUF file `a` whose partner is a folder */
    lm_pool        *pool;
    lm_arena        arena;
} lm_pair;

/* `threads` 0: physical cores. LM_USAGE: a model without weights. */
lm_status lm_pair_new(const lm_model *a, const lm_model *b, uint32_t threads, lm_pair **out, lm_error *e);
void      lm_pair_free(lm_pair *p);

/* Matrices of a weight, and rows and columns of each; a vector is one row. */
uint64_t lm_pair_matrices(const lm_pair *p, uint32_t weight);
uint64_t lm_pair_rows(const lm_pair *p, uint32_t weight);
uint64_t lm_pair_cols(const lm_pair *p, uint32_t weight);

/* Rows [from, from + n) of matrix k of a weight of `a`; and of the same of `b`, in the order of `a`. Thread-safe. */
lm_status lm_pair_read_a(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out, lm_error *e);
lm_status lm_pair_read_b(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out, lm_error *e);

/* A whole matrix, by all threads. */
lm_status lm_pair_matrix_a(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e);
lm_status lm_pair_matrix_b(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e);

/* Matrix k of `a` as it is after a quantisation: importance of its columns, or NULL. *bytes (may be NULL): of the blocks. */
lm_status lm_pair_matrix_as(lm_pair *p, uint32_t weight, uint64_t k, lm_dtype type, const float *importance, float *out, lm_error *e);

/* What a user calls the weight: as GGUF does, or as folders do where neither file is one. */
const char *lm_pair_name(const lm_pair *p, uint32_t weight);

#endif
