/* paired.h - the weights of a model as float values, and those of another model in the same order, whether
 * their containers store them joined, separately, in another order or in another type. Weights are matched by
 * their paths in the programs. */
#ifndef LM_API_PAIRED_H
#define LM_API_PAIRED_H

#include "base/os/pool.h"
#include "export/tensors/stored_matrices.h"
#include "runtime/model/model.h"

typedef struct lm_pair {
    const lm_model *a, *b;           /* b: NULL for a single model */
    lm_matrices    *of_a, *of_b;
    uint32_t       *in_b;            /* [weights of a]: the weight of b, or LM_NONE */
    lm_row_order   *order;           /* [weights of a]: row order if `a` is a GGUF file and b a folder */
    lm_pool        *pool;
    lm_arena        arena;
} lm_pair;

/* `threads` 0: physical cores. LM_USAGE: a model has no weights. */
lm_status lm_pair_new(const lm_model *a, const lm_model *b, uint32_t threads, lm_pair **out, lm_error *e);
void      lm_pair_free(lm_pair *p);

/* Return the number of matrices of a weight, and the rows and columns of each; a vector is one row. */
uint64_t lm_pair_matrices(const lm_pair *p, uint32_t weight);
uint64_t lm_pair_rows(const lm_pair *p, uint32_t weight);
uint64_t lm_pair_cols(const lm_pair *p, uint32_t weight);

/* Read rows [from, from + n) of matrix k of a weight of `a`, or of the corresponding weight of `b` in the
 * order of `a`. Thread-safe. */
lm_status lm_pair_read_a(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out,
                         lm_error *e);
lm_status lm_pair_read_b(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out,
                         lm_error *e);

/* Read a whole matrix with all threads. */
lm_status lm_pair_matrix_a(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e);
lm_status lm_pair_matrix_b(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e);

/* Compute matrix k of `a` as it is after quantization. `importance`: of its columns, or NULL. *bytes (may be
 * NULL): size of the blocks. */
lm_status lm_pair_matrix_as(lm_pair *p, uint32_t weight, uint64_t k, lm_dtype type, const float *importance,
                            float *out, lm_error *e);

/* Return the name of a weight for users: the GGUF name, or the checkpoint name if neither model is a GGUF
 * file. */
const char *lm_pair_name(const lm_pair *p, uint32_t weight);

#endif
