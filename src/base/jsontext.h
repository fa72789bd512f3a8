/* jsontext.h - text of the world as a JSON string. */
#ifndef LM_BASE_JSONTEXT_H
#define LM_BASE_JSONTEXT_H

#include <jansson.h>

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL is out of memory. */
json_t *lm_json_text(const char *text, size_t n);

#endif
