/* str.h - byte views and growing byte buffers. Text is UTF-8 but nothing here assumes that it is valid. */
#ifndef LM_BASE_STR_H
#define LM_BASE_STR_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes owned by somebody else. May hold NULs; not terminated. */
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

/* A growing buffer. All zero: empty. Once an allocation fails `failed` is set and further appends do nothing, so a
 * sequence of appends is checked once at its end. `data` is always NUL-terminated when not NULL. */
typedef struct lm_buf {
    char  *data;
    size_t size;
    size_t capacity;
    bool   failed;
} lm_buf;

void lm_buf_add(lm_buf *b, const void *data, size_t n);
void lm_buf_add_str(lm_buf *b, const char *s);
void lm_buf_add_view(lm_buf *b, lm_view v);
void lm_buf_add_char(lm_buf *b, char c);
void lm_buf_printf(lm_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_buf_vprintf(lm_buf *b, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
bool lm_buf_reserve(lm_buf *b, size_t more);            /* room for `more` bytes; false (and failed) when not */
void lm_buf_clear(lm_buf *b);                           /* keeps the memory */
void lm_buf_free(lm_buf *b);
lm_view lm_buf_view(const lm_buf *b);
const char *lm_buf_string(const lm_buf *b, size_t i);   /* the i-th of strings that end with a NUL each; NULL past the last */

/* The value of a hexadecimal digit; -1 for anything else. */
int lm_hex_digit(char c);

/* The edit distance between two short strings, for "did you mean". */
size_t lm_edit_distance(const char *a, const char *b);

#endif
