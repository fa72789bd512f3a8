/* buffer.h - text that grows: what functions write documents, names and decoded tokens into.
 *
 * The caller owns an lm_text, and frees it with lm_text_free; all zero is empty. One rule holds for every function of lamina that
 * takes one to write into: what it writes is appended to what is there, and on failure what was there is left as it was. One lm_text is
 * used by one thread at a time. */
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
    char  *data;                     /* NUL-terminated when not NULL; may hold NULs of its own */
    size_t size, capacity;           /* bytes: without the NUL; allocated */
    bool   failed;                   /* memory ran out: nothing is appended until lm_text_clear, so that a sequence of appends is
                                        checked once, at its end */
} lm_text;

void lm_text_add(lm_text *t, const void *data, size_t n);
void lm_text_add_str(lm_text *t, const char *s);
void lm_text_add_char(lm_text *t, char c);
void lm_text_add_utf8(lm_text *t, const char *data, size_t n);     /* U+FFFD for every ill-formed part, as Python's "replace" */
void lm_text_add_json(lm_text *t, const char *data, size_t n);     /* a JSON string in its quotes, of text repaired in that way */
/* As printf; the decimal point is a point in every locale. */
void lm_text_printf(lm_text *t, const char *format, ...) LM_PRINTF(2, 3);

void lm_text_clear(lm_text *t);                                    /* empty; keeps the memory */
void lm_text_free(lm_text *t);                                     /* empty, all zero */

/* The whole of a regular file of at most `max` bytes. LM_NOT_FOUND where there is none, LM_BAD_MODEL when it is longer. */
lm_status lm_text_load(lm_text *t, const char *path, uint64_t max, lm_error *e);

/* Write a file that is afterwards whole or as before: a new one beside it, flushed to the disk, takes its name. What a link points
 * to is replaced, not the link; devices and pipes are written as they are. LM_NO_MEMORY when the text has failed. */
lm_status lm_text_save(const lm_text *t, const char *path, lm_error *e);

/* Columns that UTF-8 takes on a terminal: two for a Chinese character, none for a mark that stands above or below its letter. A
 * mark that stands beside it (Burmese has many) takes one, as terminals and wcwidth(3) have it. Bytes that are no UTF-8 take none. */
unsigned lm_text_columns(const char *utf8);

/* As much of a text, in whole characters, as fits into so many columns, and blanks up to there. */
void lm_text_add_cell(lm_text *t, const char *utf8, unsigned columns);

/* A bar of share x (0…1) of `cells` columns, in eighths of a column; one eighth where x is more than nothing. */
void lm_text_add_bar(lm_text *t, double x, unsigned cells);

#ifdef __cplusplus
}
#endif
#endif
