/* stored_matrices.h - the weights of a model on disk as its program has them, matrix by matrix, whatever its container keeps together,
 * apart,
 * transposed or in another order. What a writer of any container reads from.
 *
 * Rows come in the order of checkpoints and in the type that is stored; values are those of the container (a norm that checkpoints store
 * less one is less one when it comes from a checkpoint: lm_matrices_lifted). */
#ifndef LM_EXPORT_STORED_MATRICES_H
#define LM_EXPORT_STORED_MATRICES_H

#include "export/roworder.h"

typedef struct lm_matrices lm_matrices;

/* Every weight finds its tensor, in the shape that the program says. `c`, `f`, `config` and `p` must live as long. LM_BAD_MODEL: a
 * tensor is missing
 * or of another shape. */
lm_status lm_matrices_new(const lm_container *c, const lm_family *f, const lm_config *config, const lm_program *p, lm_matrices **out,
                          lm_error *e);
void      lm_matrices_free(lm_matrices *m);                                      /* NULL is fine */

/* Rows of a weight stand in this order in a GGUF file; of a vector its elements do, which are rows from then on. */
void lm_matrices_set_order(lm_matrices *m, uint32_t weight, lm_row_order order);

/* Tensors that no weight reads (layers that predict further tokens, an encoder of images): the first, and how many there are. What every
 * reader computes
 * again (frequencies, masks) and a copy of the tied embedding are not counted. */
const lm_tensor_info *lm_matrices_unused(const lm_matrices *m, size_t *n);

/* Of elements as they are read; the codes of MXFP4 checkpoints are LM_MXFP4. */
lm_dtype lm_matrices_type(const lm_matrices *m, uint32_t weight);
/* Whether the container stores w - 1. */
bool     lm_matrices_lifted(const lm_matrices *m, uint32_t weight);

/* Matrix `k` of lm_matrices_count [rows][cols]; a vector is one row, or one element a row: rows [from, from + n) to `out`, in the stored
 * type. LM_IO: the file shrank meanwhile. */
uint64_t  lm_matrices_count(const lm_matrices *m, uint32_t weight);
uint64_t  lm_matrices_rows(const lm_matrices *m, uint32_t weight);
uint64_t  lm_matrices_cols(const lm_matrices *m, uint32_t weight);
lm_status lm_matrices_read(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, void *out, lm_error *e);

/* The same of the transpose of matrix `k`: rows [from, from + n) of lm_matrices_rows elements each, as stored. Types without blocks, in
 * rows that stand as
 * they are: LM_UNSUPPORTED otherwise. */
lm_status lm_matrices_read_turned(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, void *out, lm_error *e);
bool      lm_matrices_can_turn(const lm_matrices *m, uint32_t weight);

/* The container's pages of a weight may leave memory. */
void lm_matrices_drop(const lm_matrices *m, uint32_t weight);

#endif
