/* carrier.h - a Hugging Face folder as the GGUF file that it would be: keys, tensors, and their numbers row by row. What every writer of
 * GGUF
 * reads a folder through; nothing is copied, and no more memory is taken than names need.
 *
 * The keys and names come from the family's own tables: what the file would say is read back by the same reader that opens GGUF files, and
 * must describe the model that the folder does. */
#ifndef LM_EXPORT_CARRIER_H
#define LM_EXPORT_CARRIER_H

#include "export/stored_matrices.h"
#include "formats/gguf.h"

/* One tensor of the file. */
typedef struct lm_carried {
    const char  *name;               /* "blk.0.attn_q.weight" */
    lm_dtype     stored;             /* as the folder has it */
    lm_dtype     type;               /* as the file will have it */
    uint32_t     n_dims;
    uint64_t     dims[3];            /* outermost first */
    uint64_t     elements, rows, cols;   /* rows of all its matrices */
    /* the carrier's own */
    uint32_t     weight;
    uint64_t     first;              /* of the weight's rows: where a folder has one matrix and GGUF two */
    const float *values;             /* made, not stored: rotary factors */
    lm_row_order order;
} lm_carried;

typedef struct lm_carrier {
    lm_container     *folder;
    const lm_family  *family;
    lm_config        *config;
    lm_program       *program;
    lm_carried       *tensors;       /* in the order of the file */
    size_t            n;
    lm_container     *seen;          /* the file as a reader will see it: lm_container_meta, infos without data; NULL until
                                        lm_carrier_preview */
    lm_text           notes;         /* what is not carried, and what was unusual: lines */
    /* its own */
    lm_arena     arena;
    lm_matrices *matrices;
} lm_carrier;

/* Of an opened folder, which is the carrier's from here on, also on failure. Tensors have the types that the folder has, vectors, norms
 * and routers
 * F32. LM_UNSUPPORTED: the family, or something of this model, has no form in GGUF. */
lm_status lm_carrier_open(lm_container *folder, lm_carrier **out, lm_error *e);
void      lm_carrier_close(lm_carrier *c);                                       /* NULL is fine */

/* Types for the whole file: matrices in F32, F16, BF16 or Q8_0, or as they are (`matrices` NULL). Four-bit codes stay what they are.
 * The number is general.file_type. */
uint32_t  lm_carrier_choose(lm_carrier *c, const lm_dtype *matrices);

/* The keys and tensors, read back: sets `seen`. `name`: general.name, NULL: the folder's. */
lm_status lm_carrier_preview(lm_carrier *c, const char *name, lm_error *e);

/* Rows [from, from + n) of tensor `i` in the file's order, as float32; or in the stored type (of a tensor whose `values` are made, F32).
 * Not what a norm is stored as where checkpoints store it less one: lm_carrier_is_raw. Thread-safe. */
lm_status lm_carrier_floats(const lm_carrier *c, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e);
bool      lm_carrier_is_raw(const lm_carrier *c, size_t i);      /* the file has the folder's bytes, in another order perhaps */
lm_status lm_carrier_bytes(const lm_carrier *c, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e);
void      lm_carrier_drop(const lm_carrier *c, size_t i);        /* its pages may leave memory */

#endif
