/* widenum.h - numbers of a JSON text that no 64-bit integer holds, kept as they are written: parsers make doubles of them. */
#ifndef LM_BASE_WIDENUM_H
#define LM_BASE_WIDENUM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "lamina/error.h"

typedef struct lm_wide_number { double x; const char *text; size_t n; } lm_wide_number;

/* Sorted by `x`, each once. They point into the text that they were read from. All zero is none; lm_wide_free frees. */
typedef struct lm_wide { lm_wide_number *all; size_t n, capacity; } lm_wide;

/* Those of a JSON text, or of a list of numbers. LM_USAGE, `where` "numbers": two are written differently and are one double. `out` is then
 * empty. */
lm_status lm_wide_read(const char *json, size_t n, lm_wide *out, lm_error *e);
void lm_wide_free(lm_wide *w);

/* The one that is this double; NULL: none. */
const lm_wide_number *lm_wide_find(const lm_wide *w, double x);

/* Whether it is written as an integer. */
bool lm_wide_is_integer(const lm_wide_number *w);

#endif
