/* safetensors.h - read and write safetensors files (u64 header length | JSON header | data). */
#ifndef LM_FORMATS_SAFETENSORS_H
#define LM_FORMATS_SAFETENSORS_H

#include "formats/container.h"

/* Open one file, or a folder: config.json with model.safetensors, otherwise with model.safetensors.index.json
 * and its shards. */
lm_status lm_safetensors_open(const char *path, const lm_container_options *o, lm_container **out,
                              lm_error *e);

/* The writer: declare all tensors (and string metadata), then write their data in the same order. Errors
 * while declaring are reported by `begin`. Nothing appears under `path` before `commit`. */
typedef struct lm_safetensors_writer lm_safetensors_writer;

lm_status lm_safetensors_create(const char *path, lm_safetensors_writer **out, lm_error *e);
void      lm_safetensors_add_meta(lm_safetensors_writer *w, const char *key, const char *value);
/* Only types that safetensors supports: F64 F32 F16 BF16, integers, BOOL. */
void lm_safetensors_add_tensor(lm_safetensors_writer *w, const char *name, lm_dtype type, uint32_t n_dims,
                               const uint64_t *dims);
lm_status lm_safetensors_begin(lm_safetensors_writer *w, lm_error *e);
lm_status lm_safetensors_write(lm_safetensors_writer *w, const void *data, size_t n, lm_error *e);
/* Alternatively, write in any order: bytes at `offset` of the data, in which the tensors are
 * adjacent and in the declared order. Write each byte once. */
lm_status lm_safetensors_write_at(lm_safetensors_writer *w, uint64_t offset, const void *data, size_t n,
                                  lm_error *e);
/* frees w, even on failure */
lm_status lm_safetensors_commit(lm_safetensors_writer *w, lm_error *e);
void      lm_safetensors_abort(lm_safetensors_writer *w);                             /* NULL is fine */

#endif
