/* str.h - byte views, and further functions for growing text. Text is UTF-8, but nothing here assumes that it
 * is valid. */
#ifndef LM_BASE_STR_H
#define LM_BASE_STR_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/buffer.h"

/* Borrowed bytes. They may contain NULs and are not terminated. */
typedef struct lm_view {
    const char *data;
    size_t      size;
} lm_view;

#define LM_VIEW(literal) ((lm_view){ (literal), sizeof(literal) - 1 })

lm_view lm_view_of(const char *s);                      /* of a C string; NULL gives an empty view */
bool    lm_view_equal(lm_view a, lm_view b);
bool    lm_view_is(lm_view a, const char *s);
bool    lm_view_starts(lm_view a, lm_view prefix);
bool    lm_view_ends(lm_view a, lm_view suffix);

/* ---- growing text (lamina/buffer.h): functions internal to the library ---- */
void lm_text_add_view(lm_text *t, lm_view v);
void lm_text_vprintf(lm_text *t, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
bool lm_text_reserve(lm_text *t, size_t more);          /* reserve `more` bytes; false (and failed): no
                                                           memory */

/* For functions that append to a caller's text and leave it unchanged on failure: append one piece; or, as
 * their last act, append all of `made`, which is freed, if `status` is LM_OK. LM_NO_MEMORY names `what`. */
lm_status lm_text_append(lm_text *t, const void *data, size_t n, const char *what, lm_error *e);
lm_status lm_text_deliver(lm_text *made, lm_status status, const char *what, lm_text *out, lm_error *e);
void      lm_text_cut(lm_text *t, size_t size);         /* back to an earlier size */

lm_view lm_text_view(const lm_text *t);
const char *lm_text_string(const lm_text *t, size_t i); /* the i-th of several NUL-terminated strings; NULL
                                                           past the last */

/* Return the value of a hexadecimal digit; -1: it is not one. */
int lm_hex_digit(char c);

/* Return the edit distance between two short strings, for "did you mean": letters omitted, inserted,
 * replaced, or two that are swapped. */
size_t lm_edit_distance(const char *a, const char *b);

#endif
