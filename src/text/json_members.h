/* json_members.h - read typed members of untrusted JSON objects. */
#ifndef LM_TEXT_JSON_MEMBERS_H
#define LM_TEXT_JSON_MEMBERS_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

/* `where`: the JSON pointer of the object, for messages ("/model"). An absent member and a null member are
 * treated alike. */

/* Parse a whole document; every number is a real. Duplicate members, trailing text and invalid UTF-8 are
 * LM_BAD_MODEL. `file` is for messages. */
lm_status lm_document_parse(lm_view text, const char *file, json_t **out, lm_error *e);

/* Fail with LM_BAD_MODEL: `key` of `where` is not `expected`. */
lm_status lm_member_wrong(const char *where, const char *key, const char *expected, lm_error *e);

lm_status lm_member_bool(const json_t *o, const char *where, const char *key, bool absent, bool *out,
                         lm_error *e);
/* data NULL: absent */
lm_status lm_member_text(const json_t *o, const char *where, const char *key, lm_view *out, lm_error *e);
lm_status lm_member_count(const json_t *o, const char *where, const char *key, uint32_t absent, uint32_t *out,
                          lm_error *e);
/* NULL: absent */
lm_status lm_member_array(const json_t *o, const char *where, const char *key, const json_t **out,
                          lm_error *e);
lm_status lm_member_object(const json_t *o, const char *where, const char *key, const json_t **out,
                           lm_error *e);

/* Return the string "type" of an object, "" if it has none or `o` is not an object. */
const char *lm_member_type(const json_t *o);

/* Read a whole number in [0, max]; false: it is not one. */
bool lm_whole_number(const json_t *v, uint32_t max, uint32_t *out);

#endif
