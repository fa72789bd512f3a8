/* gguf.h - read and write GGUF (versions 2 and 3, little-endian).
 *
 *   "GGUF" | u32 version | u64 tensors | u64 keys
 *   keys    x { string key | u32 type | value }
 *   tensors x { string name | u32 n_dims | u64 ne[n_dims], ne[0] contiguous | u32 type | u64 offset }
 *   padding to general.alignment | tensor data */
#ifndef LM_FORMATS_GGUF_H
#define LM_FORMATS_GGUF_H

#include "formats/container.h"

/* The reader: lm_container_open calls it. */
lm_status lm_gguf_open(const char *path, const lm_container_options *o, lm_container **out, lm_error *e);
/* Implements lm_container_open_file: takes ownership of the file in every case. */
lm_status lm_gguf_open_file(lm_filemap *file, const lm_container_options *o, lm_container **out, lm_error *e);

/* The writer. Add keys and tensor headers first, then call `begin`, then write the data of every tensor in
 * the same order, then call `commit`. Nothing appears under `path` before that. Errors while adding (no
 * memory, a key or a tensor twice, an impossible shape) are reported by `begin`. Version 3, alignment 32. */
typedef struct lm_gguf_writer lm_gguf_writer;

lm_status lm_gguf_create(const char *path, lm_gguf_writer **out, lm_error *e);
void      lm_gguf_add_u32(lm_gguf_writer *w, const char *key, uint32_t v);
void      lm_gguf_add_u16(lm_gguf_writer *w, const char *key, uint16_t v);
void      lm_gguf_add_i32(lm_gguf_writer *w, const char *key, int32_t v);
void      lm_gguf_add_f32(lm_gguf_writer *w, const char *key, float v);
void      lm_gguf_add_bool(lm_gguf_writer *w, const char *key, bool v);
void      lm_gguf_add_string(lm_gguf_writer *w, const char *key, lm_view v);
void      lm_gguf_add_strings(lm_gguf_writer *w, const char *key, const lm_view *v, size_t n);
void      lm_gguf_add_f32s(lm_gguf_writer *w, const char *key, const float *v, size_t n);
void      lm_gguf_add_i32s(lm_gguf_writer *w, const char *key, const int32_t *v, size_t n);
void      lm_gguf_add_bools(lm_gguf_writer *w, const char *key, const bool *v, size_t n);
/* Copy the keys of another GGUF's metadata that start with `prefix`, with their own types, except those that
 * start with an entry of `except`, a list that ends with NULL (may be NULL). general.alignment and split.*
 * describe the other file and are never copied. */
void lm_gguf_add_some(lm_gguf_writer *w, const lm_meta *m, const char *prefix, const char *const *except);
/* `dims`: outermost first, as everywhere here. Only types that GGUF supports. */
void lm_gguf_add_tensor(lm_gguf_writer *w, const char *name, lm_dtype type, uint32_t n_dims,
                        const uint64_t *dims);
/* Make a container of the keys and tensors added so far, as a reader will see them; no
 * tensor has data. Close it with lm_container_close. */
lm_status lm_gguf_preview(const lm_gguf_writer *w, lm_container **out, lm_error *e);
lm_status lm_gguf_begin(lm_gguf_writer *w, lm_error *e);
/* in pieces; padding is added */
lm_status lm_gguf_write(lm_gguf_writer *w, const void *data, size_t n, lm_error *e);
/* frees w, even on failure */
lm_status lm_gguf_commit(lm_gguf_writer *w, lm_error *e);
void      lm_gguf_abort(lm_gguf_writer *w);                                           /* NULL is fine */

#endif
