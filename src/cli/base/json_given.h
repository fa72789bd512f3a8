/* json_given.h - JSON from users: requests, keyword arguments, files. */
#ifndef LM_CLI_JSON_GIVEN_H
#define LM_CLI_JSON_GIVEN_H

#include <jansson.h>
#include <stddef.h>

#include "lamina/buffer.h"

/* Parse a document as json_loadb does. Numbers of any size are accepted; halves of surrogate pairs become
 * U+FFFD. The caller owns the result; NULL: `why` has the reason. */
json_t *lm_json_given(const char *text, size_t n, size_t flags, json_error_t *why);

/* Append a document to `out`, `flags` as json_dumps takes them. Integers of `wide`, a list of
 * lm_text_add_wide_numbers, are printed with the digits of the list. It fails as lm_text_add_exact_json
 * does. */
lm_status lm_json_print_given(const json_t *o, size_t flags, const lm_text *wide, lm_text *out, lm_error *e);

/* Append a document that was read from `source`, with numbers as they are written there. */
lm_status lm_json_print_as_written(const json_t *o, const lm_text *source, lm_text *out, lm_error *e);

#endif
