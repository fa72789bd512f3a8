/* jsonread.h - a strict JSON reader (RFC 8259) without a tree. It also reads Infinity, -Infinity and NaN,
 * which Python's json module writes into configurations: a reader of a number checks its range, and NaN is in
 * none.
 *
 * The caller drives it, so a malicious document costs no more memory than what the caller keeps of it; for
 * this reason headers of safetensors files are not read through a DOM. It works in place: strings are
 * unescaped where they are and end with a NUL. Every error is LM_BAD_MODEL with the file and the byte
 * offset. */
#ifndef LM_FORMATS_JSONREAD_H
#define LM_FORMATS_JSONREAD_H

#include "formats/meta.h"

typedef struct lm_json {
    char       *text;        /* modified while it is read */
    size_t      size, at;
    const char *file;        /* for messages */
    const char *where;       /* for messages; may be NULL */
    uint64_t    base;        /* offset of the text in its file */
    unsigned    depth, max_depth;
} lm_json;

/* Return the first byte of the next value ('{' '[' '"' 't' 'f' 'n' '-' or a digit), or 0 at the end of the
 * text. */
char lm_json_peek(lm_json *j);

/* Enter an object or array; `*more`: it has a first member. */
lm_status lm_json_open(lm_json *j, char bracket, bool *more, lm_error *e);
/* Call this after a member or element; `*more`: there is another one. */
lm_status lm_json_next(lm_json *j, char bracket, bool *more, lm_error *e);
/* Read the name of a member and its colon. */
lm_status lm_json_name(lm_json *j, lm_view *out, lm_error *e);

lm_status lm_json_string(lm_json *j, lm_view *out, lm_error *e);
/* Read an integer of digits only: no sign, no fraction, no exponent, at most 2^64-1. `what` is for the
 * message. */
lm_status lm_json_u64(lm_json *j, const char *what, uint64_t *out, lm_error *e);
/* Read any value except objects and arrays. */
lm_status lm_json_scalar(lm_json *j, lm_meta_value *out, lm_error *e);
/* Skip any value. */
lm_status lm_json_skip(lm_json *j, lm_error *e);
/* Check that only white space is left. */
lm_status lm_json_end(lm_json *j, lm_error *e);

/* Fail with an error at the current position. */
lm_status lm_json_wrong(const lm_json *j, lm_error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
