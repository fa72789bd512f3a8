/* imatrix.h - the importance of a model's inputs, as llama-imatrix writes it. */
#ifndef LM_EXPORT_IMATRIX_H
#define LM_EXPORT_IMATRIX_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_imatrix lm_imatrix;

/* Both forms: GGUF (`NAME.in_sum2` [matrices, cols], `NAME.counts` [matrices, 1]) and the older one. LM_BAD_MODEL: neither, or broken. */
lm_status lm_imatrix_open(const char *path, lm_imatrix **out, lm_error *e);
void      lm_imatrix_free(lm_imatrix *m);

/* The mean square of each input of the tensor: `*n` numbers, matrix by matrix; NULL: there are none. */
const float *lm_imatrix_of(const lm_imatrix *m, const char *tensor, uint64_t *n);

size_t   lm_imatrix_entries(const lm_imatrix *m);
uint32_t lm_imatrix_chunks(const lm_imatrix *m);
lm_view  lm_imatrix_dataset(const lm_imatrix *m);        /* the first text it was made from; empty: unknown */

#endif
