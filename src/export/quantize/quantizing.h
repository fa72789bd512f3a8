/* quantizing.h - the state of lm_quantize: internal to export/. */
#ifndef LM_EXPORT_QUANTIZING_H
#define LM_EXPORT_QUANTIZING_H

#include "base/arena.h"
#include "base/os/pool.h"
#include "export/files/feed.h"
#include "export/files/ggufparts.h"
#include "export/quantize/imatrix.h"
#include "formats/filetype.h"
#include "export/tensors/overflow.h"
#include "lamina/quantize.h"
#include "text/regex.h"

typedef struct lm_kept_type {
    lm_regex            *pattern;
    const lm_dtype_info *type;
    size_t               matched;    /* matrices whose name matches */
} lm_kept_type;

/* A tensor of the new file and its source. */
typedef struct lm_quantizing_tensor {
    const lm_tensor_info *from;
    size_t       index;              /* in the input */
    lm_dtype     to;
    bool         own;                /* `to` was chosen by the mixture: if values do not fit, it changes */
    int64_t      layer;
    const float *importance;
} lm_quantizing_tensor;

typedef struct lm_quantizing {
    const lm_quantize_options *o;
    lm_arena      arena;
    lm_feed       in;
    lm_imatrix   *imatrix;
    lm_parts_plan parts;
    lm_text       notes;             /* lines */
    lm_moved     *moved;             /* [n]: the tensors as they are split into parts */
    lm_pool      *pool;
    lm_quantize_fn *quantize;
    lm_regex_work work;
    lm_kept_type *keep;
    lm_quantizing_tensor *plan;      /* in the order of the new file */
    size_t        n, weighted;       /* tensors; those packed with importance weights */
    lm_type_chooser chooser;
    lm_quantized_tensor *tensors;
    uint64_t      elements, packed_elements, bytes, was, done;
    uint8_t      *packed;
    /* state of the current tensor */
    size_t        tensor;            /* index in the input */
    lm_dtype      to;
    const float  *importance;        /* [matrices × cols]; NULL: none */
    uint64_t      first_row, rows, cols, rows_of_one, grain;
    float        *scratch;           /* per thread: a chunk and a row */
    uint64_t      room;              /* elements of one thread's scratch */
    lm_overflows    overflows;
    uint64_t      bad_row;           /* the first row with non-finite values; UINT64_MAX: none */
    bool          again;             /* a tensor got another type: what was written is useless */
    int           failed;            /* a thread could not read; it has set `why` */
    lm_error      why;
    double       *errors;            /* per thread: sum of squared errors */
} lm_quantizing;

/* Read the types that `keep` sets. */
lm_status lm_quantizing_read_keep(lm_quantizing *q, lm_error *e);

/* Find what the choice of types depends on: the architecture and its numbers. */
lm_status lm_quantizing_study(lm_quantizing *q, const lm_file_type *type, lm_error *e);

/* Choose the type of each tensor and find its importance; set `plan` and `tensors`, and sum up the sizes. */
lm_status lm_quantizing_choose(lm_quantizing *q, lm_error *e);

#endif
