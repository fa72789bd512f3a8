/* allowed.h - what a request says of the text that may be written: a schema, a grammar, an expression, a list. */
#ifndef LM_SERVER_ALLOWED_H
#define LM_SERVER_ALLOWED_H

#include "lamina/grammar.h"
#include "server/ask/fields.h"
#include "server/models/service.h"

typedef struct lm_allowed {
    const char *grammar, *regex;
    json_t     *schema, *response_format, *choice;
    json_t     *format;              /* ollama's: "json" or a schema */
    json_t     *triggers;            /* llama.cpp's: [{type, value, token}] */
    bool        lazy;                /* free text up to one of them */
    bool        compact;             /* JSON without white space between its parts */
    bool        any_json;            /* any JSON object */
    json_t     *structured;          /* vLLM's object of one of these */
    const json_t *body;              /* what was sent: an error names the field by the name it has there; NULL: by the first */
} lm_allowed;

extern const lm_field lm_allowed_fields[];         /* values: lm_allowed */

/* Between the parts of JSON that is constrained. */
lm_whitespace lm_allowed_whitespace(const lm_allowed *v);

/* Whether what is asked for can go together. Quick. */
lm_status lm_allowed_check(const lm_allowed *v, lm_error *e);

/* Whether not any text may be written. */
bool      lm_allowed_limits(const lm_allowed *v);

/* After lm_allowed_check. *out NULL: any text. LM_USAGE names the field and, in a schema, the place: nothing that cannot be kept is passed
 * over. */
lm_status lm_allowed_compile(const lm_service *s, const lm_allowed *v, lm_grammar **out, lm_error *e);

#endif
