/* jsonread.h - a strict JSON reader (RFC 8259) without a tree.
 *
 * It is pulled by its caller, so a hostile document costs no more memory than what the caller keeps of it: that is why
 * headers of safetensors files are not read through a DOM. It works in place: strings are unescaped where they stand and
 * end in a NUL. Every error is LM_BAD_MODEL with the file and the byte offset. */
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

/* The first byte of the next value ('{' '[' '"' 't' 'f' 'n' '-' or a digit), or 0 at the end of the text. */
char lm_json_peek(lm_json *j);

/* Enter an object or array; `*more`: it has a first member. */
lm_status lm_json_open(lm_json *j, char bracket, bool *more, lm_error *e);
/* After a member or element: is there another one? */
lm_status lm_json_next(lm_json *j, char bracket, bool *more, lm_error *e);
/* The name of a member and its colon. */
lm_status lm_json_name(lm_json *j, lm_view *out, lm_error *e);

lm_status lm_json_string(lm_json *j, lm_view *out, lm_error *e);
/* Digits only: no sign, no fraction, no exponent, at most 2^64-1. `what` is for the message. */
lm_status lm_json_u64(lm_json *j, const char *what, uint64_t *out, lm_error *e);
/* Anything but objects and arrays. */
lm_status lm_json_scalar(lm_json *j, lm_meta_value *out, lm_error *e);
/* Read and forget any value. */
lm_status lm_json_skip(lm_json *j, lm_error *e);
/* Nothing but white space is left. */
lm_status lm_json_end(lm_json *j, lm_error *e);

/* An error at the current position. */
lm_status lm_json_wrong(const lm_json *j, lm_error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
