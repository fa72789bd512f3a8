/* merging.h - merge adapters into the tensors of a model: compute the tensors (merged.c) and write the files
 * (merge.c). */
#ifndef LM_API_MERGING_H
#define LM_API_MERGING_H

#include "base/arena.h"
#include "base/os/pool.h"
#include "export/tensors/overflow.h"
#include "lamina/merge.h"
#include "program/adapt.h"
#include "runtime/engine/adapter.h"
#include "runtime/model/model.h"

/* What an adapter adds to a stored tensor: row i gets `scale` Σ_k p[i][k] q[k]. */
typedef struct lm_addend {
    const float *p;                  /* [rows][rank] */
    const float *q;                  /* [rank][cols] */
    uint32_t     rank;
    double       scale;
} lm_addend;

/* A tensor of the model and how it changes. */
typedef struct lm_merging_tensor {
    const lm_tensor_info *from;
    lm_dtype   to;
    uint64_t   rows, cols;
    lm_addend *addends;              /* NULL: copied unchanged */
    size_t     n_addends;
} lm_merging_tensor;

/* Sums over the elements of a tensor, for lm_merged_tensor. */
typedef struct lm_merging_sums { double w2, u2, du, d2; } lm_merging_sums;

typedef struct lm_merging {
    const lm_model         *m;
    const lm_merge_options *o;
    const lm_container     *c;
    lm_arena           arena;
    lm_pool           *pool;
    lm_quantize_fn    *quantize;
    lm_merging_tensor *tensors;      /* [n], in file order */
    size_t             n, n_changed;
    lm_merged_tensor  *results;      /* [n_changed] */
    uint64_t           longest, bytes, done, elements;
    uint8_t           *packed;       /* a piece of a tensor */
    double            *scratch;      /* per thread: [longest] */
    float             *floats;       /* per thread: [3][longest] */
    lm_merging_sums   *sums;         /* per row of a piece */
    /* the current piece */
    const lm_merging_tensor *t;
    uint64_t           first, step, count, grain, stride, bad_row;
    lm_overflows       overflows;
    bool               again;        /* a tensor got another type: what was written is useless */
    lm_text            notes;        /* lines */
} lm_merging;

/* Find which tensors change, and their updates. */
lm_status lm_merging_plan(lm_merging *g, const lm_adapter *const *adapters, lm_error *e);

/* Compute rows first, first + step, … (`count`) of a tensor as they will be stored, in g->packed, and add
 * their sums to *sums. */
lm_status lm_merging_rows(lm_merging *g, const lm_merging_tensor *t, uint64_t first, uint64_t step,
                          uint64_t count, lm_merging_sums *sums, lm_error *e);

/* Return how many rows of this tensor are certain to fit in g->packed. */
uint64_t  lm_merging_piece(const lm_merging_tensor *t);

#endif
