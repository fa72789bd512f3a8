/* gguf_view.h - present a Hugging Face folder as the GGUF file that it would become: keys, tensors, and their
 * values row by row. All writers of GGUF read folders through a carrier. It copies no data and needs memory
 * only for names.
 *
 * The keys and names come from the tables of the model family. The keys are read back by the reader of GGUF
 * files and must describe the same model as the folder. */
#ifndef LM_EXPORT_GGUF_VIEW_H
#define LM_EXPORT_GGUF_VIEW_H

#include "export/tensors/stored_matrices.h"
#include "formats/gguf.h"

/* One tensor of the file. */
typedef struct lm_gguf_tensor_view {
    const char  *name;               /* "blk.0.attn_q.weight" */
    lm_dtype     stored;             /* type in the folder */
    lm_dtype     type;               /* type in the file */
    uint32_t     n_dims;
    uint64_t     dims[4];            /* outermost first */
    uint64_t     elements, rows, cols;   /* rows: of all its matrices */
    /* internal */
    uint32_t     weight;
    uint64_t     first;              /* first row within the weight, if a folder has one matrix and GGUF
                                        two */
    const lm_tensor_info *joint;     /* the tensor in the folder that it is, with the matrices of all heads */
    const float *values;             /* computed values that are not stored: rotary factors */
    lm_row_order order;
} lm_gguf_tensor_view;

typedef struct lm_gguf_view {
    lm_container     *folder;
    const lm_family  *family;
    lm_config        *config;
    lm_program       *program;
    lm_gguf_tensor_view       *tensors;       /* in file order */
    size_t            n;
    lm_container     *seen;          /* what a reader sees: lm_container_meta, tensors without data; NULL
                                        until lm_gguf_view_preview */
    lm_text           notes;         /* what is not carried over, and what is unusual: lines */
    /* internal */
    lm_arena     arena;
    lm_matrices *matrices;
} lm_gguf_view;

/* Create a carrier for an opened folder, which it takes over, also on failure. Tensors have the types of the
 * folder; vectors, norms and routers are F32. LM_UNSUPPORTED: the family, or a part of this model, cannot be
 * represented in GGUF. */
lm_status lm_gguf_view_open(lm_container *folder, lm_gguf_view **out, lm_error *e);
void      lm_gguf_view_close(lm_gguf_view *c);                                   /* NULL is allowed */

/* Choose the types of the whole file: matrices in F32, F16, BF16 or Q8_0, or unchanged (`matrices` NULL).
 * Four-bit codes are not converted. Return general.file_type. */
uint32_t  lm_gguf_view_choose(lm_gguf_view *c, const lm_dtype *matrices);

/* Read the keys and tensors back and set `seen`. `name`: general.name, NULL: the name of the folder. */
lm_status lm_gguf_view_preview(lm_gguf_view *c, const char *name, lm_error *e);

/* Read rows [from, from + n) of tensor `i` in file order, as float32 or in the stored type (F32 if `values`
 * are computed). Norms that checkpoints store less one differ from the stored values: see
 * lm_gguf_view_is_raw. Thread-safe. */
lm_status lm_gguf_view_floats(const lm_gguf_view *c, size_t i, uint64_t from, uint64_t n, float *out,
                              lm_error *e);
/* the file has the bytes of the folder, possibly in another order */
bool      lm_gguf_view_is_raw(const lm_gguf_view *c, size_t i);
lm_status lm_gguf_view_bytes(const lm_gguf_view *c, size_t i, uint64_t from, uint64_t n, void *out,
                             lm_error *e);
void      lm_gguf_view_drop(const lm_gguf_view *c, size_t i);    /* allow the kernel to drop its pages */

#endif
