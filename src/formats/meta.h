/* meta.h - one view of metadata, whatever file it came from.
 *
 * GGUF: `key` is the full name ("general.architecture"). JSON: a path of member names with '/' between them
 * ("rope_scaling/factor"). Every getter checks type and range; errors name the file, the key, what was
 * expected and what was found. Integers may be stored in any width or sign; floats may be written as
 * integers. An element of a JSON array is named by its index ("architectures/0"), the whole document by "".
 *
 * Metadata is read completely when it is opened and never changes: everything here is thread-safe, every
 * access to an element is O(1), strings are followed by a NUL that does not count (JSON) or by whatever
 * follows in the file (GGUF). */
#ifndef LM_FORMATS_META_H
#define LM_FORMATS_META_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_meta lm_meta;

typedef enum lm_meta_kind {
    LM_META_NULL,
    LM_META_BOOL,
    LM_META_INT,
    LM_META_UINT,
    LM_META_FLOAT,
    LM_META_STRING,
    LM_META_ARRAY,
    LM_META_OBJECT,
} lm_meta_kind;

typedef struct lm_meta_value {
    lm_meta_kind kind;
    union {
        bool     b;
        int64_t  i;              /* LM_META_INT: negative integers */
        uint64_t u;              /* LM_META_UINT: every integer >= 0 */
        double   f;
        lm_view  s;
        /* arrays and objects */
        struct { uint64_t n; const void *impl; const lm_meta *owner; uint32_t element; } a;
    };
} lm_meta_value;

/* Return the file it came from, for messages. */
const char *lm_meta_file(const lm_meta *m);

bool lm_meta_has(const lm_meta *m, const char *key);                              /* present and not null */
bool lm_meta_get(const lm_meta *m, const char *key, lm_meta_value *out);         /* false: absent */
bool lm_meta_at(const lm_meta_value *array, uint64_t i, lm_meta_value *out);     /* element i of an array */
/* a member by its name */
bool lm_meta_field(const lm_meta_value *object, const char *name, lm_meta_value *out);

/* Return "an integer", "a string" … for messages. */
const char *lm_meta_kind_name(lm_meta_kind k);

/* All top-level keys, in file order. */
size_t lm_meta_count(const lm_meta *m);
bool   lm_meta_entry(const lm_meta *m, size_t i, lm_view *key, lm_meta_value *out);
/* Members of an object value. */
bool   lm_meta_member(const lm_meta_value *object, uint64_t i, lm_view *key, lm_meta_value *out);

/* Required values: LM_BAD_MODEL if absent, of another kind, or outside [min, max]. */
lm_status lm_meta_u64(const lm_meta *m, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                      lm_error *e);
lm_status lm_meta_u32(const lm_meta *m, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                      lm_error *e);
/* finite */
lm_status lm_meta_f64(const lm_meta *m, const char *key, double min, double max, double *out, lm_error *e);
lm_status lm_meta_bool(const lm_meta *m, const char *key, bool *out, lm_error *e);
lm_status lm_meta_string(const lm_meta *m, const char *key, lm_view *out, lm_error *e);
/* An array of any length up to max. */
lm_status lm_meta_array(const lm_meta *m, const char *key, uint64_t max, lm_meta_value *out, lm_error *e);

/* Parse a JSON document as metadata. `text` is copied; `file` is for messages. Strict RFC 8259: duplicate
 * members, trailing text, invalid UTF-8, lone surrogates and nesting deeper than `depth` are LM_BAD_MODEL
 * with the byte offset. Integers from -2^63 to 2^64-1 are exact; longer ones (tokenizer_config.json's
 * model_max_length) are floats. */
lm_status lm_meta_from_json(const char *text, size_t size, const char *file, unsigned depth, lm_meta **out,
                            lm_error *e);
void      lm_meta_free(lm_meta *m);            /* NULL is fine; not for metadata that a container owns */

#endif
