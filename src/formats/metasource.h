/* metasource.h - the implementation of an lm_meta: one table of functions per kind of file. */
#ifndef LM_FORMATS_METASOURCE_H
#define LM_FORMATS_METASOURCE_H

#include "formats/meta.h"

typedef struct lm_meta_source {
    bool   (*get)(const lm_meta *m, const char *key, lm_meta_value *out);
    bool   (*at)(const lm_meta_value *array, uint64_t i, lm_meta_value *out);
    size_t (*count)(const lm_meta *m);
    bool   (*entry)(const lm_meta *m, size_t i, lm_view *key, lm_meta_value *out);
    bool   (*member)(const lm_meta_value *object, uint64_t i, lm_view *key, lm_meta_value *out);
    void   (*free)(lm_meta *m);
} lm_meta_source;

struct lm_meta {
    const lm_meta_source *source;
    const char           *file;
};

/* Like lm_meta_from_json, but takes ownership of `text` (from lm_alloc, of `size` bytes and a NUL), even on
 * failure. */
lm_status lm_meta_take_json(char *text, size_t size, const char *file, unsigned depth, lm_meta **out,
                            lm_error *e);

/* Make metadata of string members only, in the given order: the __metadata__ of a safetensors file. Keys and
 * values are copied. */
lm_status lm_meta_from_strings(const lm_view *keys, const lm_view *values, size_t n, const char *file,
                               lm_meta **out, lm_error *e);

#endif
