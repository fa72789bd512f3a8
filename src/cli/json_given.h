/* json_given.h - JSON from users: requests, keyword arguments, files. */
#ifndef LM_CLI_JSON_GIVEN_H
#define LM_CLI_JSON_GIVEN_H

#include <jansson.h>
#include <stddef.h>

/* Parse a document as json_loadb does. Numbers of any size are accepted; halves of surrogate pairs become U+FFFD. The caller owns the
 * result; NULL: `why` has the reason. */
json_t *lm_json_given(const char *text, size_t n, size_t flags, json_error_t *why);

#endif
