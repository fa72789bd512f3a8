/* moving.h - copy tensors from one container to another: internal to export/. */
#ifndef LM_EXPORT_MOVING_H
#define LM_EXPORT_MOVING_H

#include "base/os/pool.h"
#include "formats/container.h"

/* A tensor of the new container. */
typedef struct lm_moved {
    const char *name;
    lm_dtype    from, to;
    bool        own;                 /* nobody named `to`: if values do not fit, it becomes another type */
    bool        raw;                 /* its bytes are unchanged, possibly reordered */
    uint32_t    n_dims;
    uint64_t    dims[LM_MAX_DIMS];   /* outermost first */
    uint64_t    elements, bytes;
    uint64_t    rows, cols;
    uint32_t    part;
} lm_moved;

/* Read rows [from, from + n) of tensor `i`: in its type `from`, or as float32. Must be thread-safe. */
typedef struct lm_row_source {
    void       *arg;
    lm_status (*bytes)(void *arg, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e);
    lm_status (*floats)(void *arg, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e);
    void      (*drop)(void *arg, size_t i);  /* the tensor is done; may be NULL */
} lm_row_source;

typedef lm_status (*lm_sink)(void *file, const void *data, size_t n, lm_error *e);

typedef struct lm_moving {
    lm_row_source source;
    lm_pool      *pool;
    uint8_t      *piece;             /* rows as they are written to the file */
    size_t        room;
    float        *scratch;           /* rows, per thread */
    uint64_t      done, total;       /* bytes */
    bool          clamp;             /* limit values that do not fit, with a line in `notes` */
    lm_text      *notes;
    bool          again;             /* a tensor got another type: what was written is useless */
    bool        (*progress)(void *arg, double fraction);
    void         *progress_arg;
} lm_moving;

/* Allocate buffers for these tensors. `threads` 0: physical cores. */
lm_status lm_moving_begin(lm_moving *m, const lm_moved *tensors, size_t n, uint32_t threads, lm_error *e);
lm_status lm_move_tensor(lm_moving *m, lm_moved *t, size_t i, lm_sink sink, void *file, lm_error *e);
void      lm_moving_end(lm_moving *m);

/* Compute the bytes in the type `to`. LM_UNSUPPORTED: not a whole number of blocks. */
lm_status lm_moved_measure(lm_moved *t, lm_error *e);

#endif
