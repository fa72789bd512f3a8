/* jsontext.h - untrusted text as a JSON string. */
#ifndef LM_BASE_JSONTEXT_H
#define LM_BASE_JSONTEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL is out of memory. */
json_t *lm_json_text(const char *text, size_t n);

/* As json_loadb, but what JSON allows and the parser does not hold is read as lm_text_add_mended_json has it. */
json_t *lm_json_read(const char *text, size_t n, size_t flags, json_error_t *why);

/* The document appended to `out`, `flags` as json_dumps takes them. False: out of memory. */
bool lm_json_print(const json_t *document, size_t flags, lm_text *out);

#endif
