/* ggufmeta.h - the keys of a GGUF file: internal to formats/. */
#ifndef LM_FORMATS_GGUFMETA_H
#define LM_FORMATS_GGUFMETA_H

#include "base/cursor.h"
#include "formats/metasource.h"

enum {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

#define GGUF_MAX_KEY    65535u
#define GGUF_MAX_STRING (64u << 20)      /* the longest in use: a whole tokenizer.json */
#define GGUF_MIN_KEY_BYTES 13u           /* u64 length | u32 type | u8 */

/* Read a key's name: not empty, printable ASCII (not all writers respect the specification's narrower
 * alphabet). */
lm_status lm_gguf_key_name(lm_cursor *c, lm_view *out, lm_error *e);

/* Skip one value of the given type (arrays: including their header), checking that all of it lies in the
 * file. */
lm_status lm_gguf_skip_value(lm_cursor *c, uint32_t type, const char *key, lm_error *e);

/* Read `n` keys into new metadata that owns `bytes` (from lm_alloc; ownership is taken even on failure). `c`
 * reads `bytes`; it is at the first key, and after the last one on return. */
lm_status lm_gguf_read_keys(lm_cursor *c, uint8_t *bytes, uint64_t n, const char *file, lm_meta **out,
                            lm_error *e);

/* Return the bytes of entry i as they are in the file: key, type, value. Empty if the metadata is not from a
 * GGUF. */
lm_view lm_gguf_raw_entry(const lm_meta *m, size_t i);
bool    lm_gguf_is_meta(const lm_meta *m);

/* Return the offset in the file of the first of *n floats under a key; 0: it is absent, or is not a list of
 * 32-bit floats. */
size_t lm_gguf_floats_at(const lm_meta *m, const char *key, uint64_t *n);

/* Return the GGUF type of a key; GGUF_TYPES if it is absent. */
uint32_t lm_gguf_type_of(const lm_meta *m, const char *key);

#endif
