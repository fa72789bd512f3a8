/* json_body.h - parse the JSON of clients and models, including what JSON allows and the parser cannot
 * represent. The document is the caller's. */
#ifndef LM_SERVER_JSON_BODY_H
#define LM_SERVER_JSON_BODY_H

#include <jansson.h>

/* As json_loadb with these flags. Numbers out of range become the nearest that fits: JSON has no largest one.
 * Lone surrogates and bytes that are not UTF-8 become U+FFFD; *mended (may be NULL) is their number. */
json_t *lm_json_body(const char *text, size_t n, size_t flags, size_t *mended, json_error_t *why);

#endif
