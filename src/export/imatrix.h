/* imatrix.h - sums by name, for those who read, collect and write them. */
#ifndef LM_EXPORT_IMATRIX_H
#define LM_EXPORT_IMATRIX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/str.h"
#include "lamina/imatrix.h"

enum { LM_OLDER_CHUNK = 512 };           /* rows that a chunk of the older form counts as */

typedef struct lm_imatrix_sums {
    const char *name;
    uint64_t    cols;
    uint32_t    matrices;
    double     *sums;                    /* [matrices × cols] */
    uint64_t   *rows;                    /* [matrices] */
    float      *means;                   /* [matrices × cols]; NULL: not asked for yet */
} lm_imatrix_sums;

struct lm_imatrix {
    lm_arena         arena;
    lm_map          *names;              /* of entries */
    lm_imatrix_sums *entries;
    size_t           n_entries, capacity;
    uint32_t         chunks, chunk_size;
    const char     **datasets;
    size_t           n_datasets;
};

/* The entry of that name, made where there is none. LM_BAD_MODEL: it has another shape. */
lm_status lm_imatrix_entry_of(lm_imatrix *m, lm_view name, uint64_t cols, uint64_t matrices, lm_imatrix_sums **out, lm_error *e);

/* Another text that it is made from; the same twice is one. */
lm_status lm_imatrix_add_dataset(lm_imatrix *m, lm_view name, lm_error *e);

/* The mean square of each input of a tensor, *n numbers matrix by matrix, of a matrix without rows 1; NULL: there is no such entry, or
 * no memory (`*n` is 1). */
const float *lm_imatrix_of(lm_imatrix *m, const char *tensor, uint64_t *n);

size_t lm_imatrix_entries(const lm_imatrix *m);

#endif
