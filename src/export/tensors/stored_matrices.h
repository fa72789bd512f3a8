/* stored_matrices.h - the weights of a model on disk as its program has them, matrix by matrix, whether its
 * container stores them joined, separately, transposed or in another order. The writers of all containers
 * read from it.
 *
 * Rows come in checkpoint order and in the stored type. Values are those of the container
 * (lm_weight_differs). */
#ifndef LM_EXPORT_STORED_MATRICES_H
#define LM_EXPORT_STORED_MATRICES_H

#include "export/tensors/roworder.h"

typedef struct lm_matrices lm_matrices;

/* Find the tensor of every weight and check its shape against the program. `c`, `f`, `config` and `p` must
 * outlive the result. LM_BAD_MODEL: a tensor is missing or has another shape. */
lm_status lm_matrices_new(const lm_container *c, const lm_family *f, const lm_config *config,
                          const lm_program *p, lm_matrices **out, lm_error *e);
void      lm_matrices_free(lm_matrices *m);                                      /* NULL is allowed */

/* Set the order of a weight's rows in a GGUF file; for a vector, of its elements, which then count as
 * rows. */
void lm_matrices_set_order(lm_matrices *m, uint32_t weight, lm_row_order order);

/* Return the first tensor that no weight reads (layers that predict further tokens, an image encoder), and
 * the number of such tensors. Tensors that every reader recomputes (frequencies, masks) and a copy of the
 * tied embedding are not counted. */
const lm_tensor_info *lm_matrices_unused(const lm_matrices *m, size_t *n);

/* Return the tensor that holds the matrices of all heads of a weight, with those of others. */
const lm_tensor_info *lm_matrices_joint(const lm_matrices *m, uint32_t weight);

/* The type of the elements that are read; codes of MXFP4 checkpoints are LM_MXFP4. */
lm_dtype lm_matrices_type(const lm_matrices *m, uint32_t weight);
/* Convert values as the container stores them to those of the program. */
void     lm_matrices_values(const lm_matrices *m, uint32_t weight, float *x, uint64_t n);

/* Matrix `k` of lm_matrices_count has the shape [rows][cols]; a vector is one row, or has one element per
 * row. Read rows [from, from + n) into `out`, in the stored type. LM_IO: the file was truncated meanwhile. */
uint64_t  lm_matrices_count(const lm_matrices *m, uint32_t weight);
uint64_t  lm_matrices_rows(const lm_matrices *m, uint32_t weight);
uint64_t  lm_matrices_cols(const lm_matrices *m, uint32_t weight);
lm_status lm_matrices_read(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from, uint64_t n,
                           void *out, lm_error *e);

/* Read from the transpose of matrix `k`: rows [from, from + n) of lm_matrices_rows elements each, in the
 * stored type. LM_UNSUPPORTED unless lm_matrices_can_turn: types without blocks whose rows are not reordered,
 * and matrices whose transpose is stored. */
lm_status lm_matrices_read_turned(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from,
                                  uint64_t n, void *out, lm_error *e);
bool      lm_matrices_can_turn(const lm_matrices *m, uint32_t weight);

/* Allow the kernel to drop a weight's pages of the container. */
void lm_matrices_drop(const lm_matrices *m, uint32_t weight);

#endif
