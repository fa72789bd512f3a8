/* json_body.h - JSON that clients and models write, read with what JSON allows and the parser does not hold. */
#ifndef LM_SERVER_JSON_BODY_H
#define LM_SERVER_JSON_BODY_H

#include <jansson.h>

/* As json_loadb with these flags. Numbers beyond what is held become the nearest that is: JSON has no largest one. Halves of characters
 * (surrogates without their other half, bytes that are no UTF-8) become U+FFFD, which *mended counts; NULL: nobody asks. */
json_t *lm_json_body(const char *text, size_t n, size_t flags, size_t *mended, json_error_t *why);

#endif
