/* widenum.h - numbers of a JSON text that do not fit a 64-bit integer, stored as they are written, because
 * parsers make doubles of them. */
#ifndef LM_BASE_WIDENUM_H
#define LM_BASE_WIDENUM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "lamina/error.h"

typedef struct lm_wide_number { double x; const char *text; size_t n; } lm_wide_number;

/* Sorted by `x`, without duplicates. They point into the text that they were read from. All zero: none. Free
 * it with lm_wide_free. */
typedef struct lm_wide { lm_wide_number *all; size_t n, capacity; } lm_wide;

/* Read those of a JSON text, or of a list of numbers. LM_USAGE, `where` "numbers": two different spellings
 * are the same double; `out` is then empty. */
lm_status lm_wide_read(const char *json, size_t n, lm_wide *out, lm_error *e);
void lm_wide_free(lm_wide *w);

/* Return the one that is this double; NULL: none. */
const lm_wide_number *lm_wide_find(const lm_wide *w, double x);

/* Return whether it is written as an integer. */
bool lm_wide_is_integer(const lm_wide_number *w);

#endif
