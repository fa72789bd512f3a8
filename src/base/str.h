/* str.h - byte views, and more of growing text. Text is UTF-8 but nothing here assumes that it is valid. */
#ifndef LM_BASE_STR_H
#define LM_BASE_STR_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/buffer.h"

/* Borrowed bytes. May hold NULs; not terminated. */
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

/* ---- text that grows (lamina/buffer.h): what only the library needs ---- */
void lm_text_add_view(lm_text *t, lm_view v);
void lm_text_vprintf(lm_text *t, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
bool lm_text_reserve(lm_text *t, size_t more);          /* room for `more` bytes; false (and failed) when not */

/* For functions that append to a caller's text and leave it as it was on failure: one piece of it; or, as their last act, all that
 * was `made`, which is freed, where `status` is LM_OK. LM_NO_MEMORY names `what`. */
lm_status lm_text_append(lm_text *t, const void *data, size_t n, const char *what, lm_error *e);
lm_status lm_text_deliver(lm_text *made, lm_status status, const char *what, lm_text *out, lm_error *e);
void      lm_text_cut(lm_text *t, size_t size);         /* back to the size that it had */

lm_view lm_text_view(const lm_text *t);
const char *lm_text_string(const lm_text *t, size_t i); /* the i-th of strings that end with a NUL each; NULL past the last */

/* The value of a hexadecimal digit; -1 for anything else. */
int lm_hex_digit(char c);

/* The edit distance between two short strings, for "did you mean": letters left out, put in, replaced, or two that changed places. */
size_t lm_edit_distance(const char *a, const char *b);

#endif
