/* imatrix.h - importance sums per tensor name, for reading, collecting and writing them. */
#ifndef LM_EXPORT_IMATRIX_H
#define LM_EXPORT_IMATRIX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/str.h"
#include "lamina/imatrix.h"

enum { LM_OLDER_CHUNK = 512 };           /* rows per chunk in the older format */

typedef struct lm_imatrix_sums {
    const char *name;
    uint64_t    cols;
    uint32_t    matrices;
    double     *sums;                    /* [matrices × cols] */
    uint64_t   *rows;                    /* [matrices] */
    float      *means;                   /* [matrices × cols]; NULL: not requested yet */
} lm_imatrix_sums;

struct lm_imatrix {
    lm_arena         arena;
    lm_map          *names;              /* name to index in `entries` */
    lm_imatrix_sums *entries;
    size_t           n_entries, capacity;
    uint32_t         chunks, chunk_size;
    const char     **datasets;
    size_t           n_datasets;
};

/* Return the entry with that name, which is created if needed. LM_BAD_MODEL: it has another shape. */
lm_status lm_imatrix_entry_of(lm_imatrix *m, lm_view name, uint64_t cols, uint64_t matrices,
                              lm_imatrix_sums **out, lm_error *e);

/* Add the name of a dataset; duplicates are ignored. */
lm_status lm_imatrix_add_dataset(lm_imatrix *m, lm_view name, lm_error *e);

/* Return the mean square of each input of a tensor: *n numbers, matrix by matrix; 1 for matrices without
 * rows. NULL: there is no such entry (*n is 0), or out of memory (*n is 1). */
const float *lm_imatrix_of(lm_imatrix *m, const char *tensor, uint64_t *n);

size_t lm_imatrix_entries(const lm_imatrix *m);

#endif
