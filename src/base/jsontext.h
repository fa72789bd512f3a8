/* jsontext.h - JSON with untrusted text. */
#ifndef LM_BASE_JSONTEXT_H
#define LM_BASE_JSONTEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Make a JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL: out of memory. */
json_t *lm_json_text(const char *text, size_t n);

/* Make a JSON number of `x` rounded to so many significant digits, up to 17: an integer if it is then written
 * without a point and an exponent, null if it is not finite. NULL: out of memory. */
json_t *lm_json_rounded(double x, int digits);

/* Make a JSON number of the shortest decimal that is the same float32 as x. NULL: out of memory. */
json_t *lm_json_float(double x);

/* Like json_loadb; if that fails, read the text as repaired by lm_text_add_mended_json. */
json_t *lm_json_read(const char *text, size_t n, size_t flags, json_error_t *why);

/* The object for json_object_iter() and json_object_foreach(), which only read it. */
static inline json_t *lm_json_iterable(const json_t *object)
{
    return (json_t *)(uintptr_t)object;                  /* jansson's declaration lacks the const */
}

/* Append the document to `out`, with the `flags` of json_dumps. False: out of memory. */
bool lm_json_print(const json_t *document, size_t flags, lm_text *out);
/* The same with the fewest digits, 15 to 17 in all numbers, that read back as the same numbers. */
bool lm_json_print_exact(const json_t *document, size_t flags, lm_text *out);

#endif
