/* buffer.h - a growing string, the output of functions that write documents, names and decoded tokens.
 *
 * The caller owns an lm_text and frees it with lm_text_free; all zero is an empty one. Every function of
 * lamina that writes to one appends to its content, and leaves the content unchanged on failure. An lm_text
 * is used by one thread at a time. */
#ifndef LAMINA_BUFFER_H
#define LAMINA_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_text {
    char  *data;                     /* NUL-terminated unless NULL; may contain NULs */
    size_t size, capacity;           /* in bytes, without the NUL; allocated */
    bool   failed;                   /* out of memory: nothing is appended until lm_text_clear, so that a
                                        series of appends needs one check at its end */
} lm_text;

void lm_text_add(lm_text *t, const void *data, size_t n);
void lm_text_add_str(lm_text *t, const char *s);
void lm_text_add_char(lm_text *t, char c);
/* U+FFFD for invalid parts, as Python's "replace" */
void lm_text_add_utf8(lm_text *t, const char *data, size_t n);
/* a quoted JSON string, repaired in the same way */
void lm_text_add_json(lm_text *t, const char *data, size_t n);
/* As printf, with "." as the decimal point in every locale. */
void lm_text_printf(lm_text *t, const char *format, ...) LM_PRINTF(2, 3);

void lm_text_clear(lm_text *t);                                    /* empty; keeps the memory */
void lm_text_free(lm_text *t);                                     /* empty, all zero */

/* Append a regular file of at most `max` bytes. LM_NOT_FOUND: it does not exist. LM_BAD_MODEL: it is
 * longer. */
lm_status lm_text_load(lm_text *t, const char *path, uint64_t max, lm_error *e);

/* Replace a file atomically: a new file in the same folder is flushed to the disk and renamed. A symbolic
 * link is followed and kept; devices and pipes are written directly. LM_NO_MEMORY: the text has failed. */
lm_status lm_text_save(const lm_text *t, const char *path, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
