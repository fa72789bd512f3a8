/* constraints.h - constraints on the answer: a schema, a grammar, a regular expression, a list of choices.
 *
 * An lm_constraints points into the body of the request and owns nothing. A compiled grammar is the
 * caller's. */
#ifndef LM_SERVER_CONSTRAINTS_H
#define LM_SERVER_CONSTRAINTS_H

#include "lamina/grammar.h"
#include "server/ask/fields.h"
#include "server/models/service.h"

typedef struct lm_constraints {
    const char *grammar, *regex;
    json_t     *schema, *response_format, *choice;
    json_t     *format;              /* ollama's: "json" or a schema */
    json_t     *triggers;            /* llama.cpp's: [{type, value, token}] */
    bool        lazy;                /* the output is free up to a trigger */
    bool        compact;             /* JSON without white space between its parts */
    bool        any_json;            /* any JSON object */
    json_t     *structured;          /* vLLM's object with one of these */
    const json_t *body;              /* the request: errors use the field's name in it; NULL: its first
                                        name */
} lm_constraints;

extern const lm_field lm_constraints_fields[];         /* values: lm_constraints */

/* Return the white space between the parts of constrained JSON. */
lm_whitespace lm_constraints_whitespace(const lm_constraints *v);

/* Check that the constraints can be combined, without compiling any. LM_USAGE names the field. */
lm_status lm_constraints_check(const lm_constraints *v, lm_error *e);

/* Compile the constraint, after lm_constraints_check. *out NULL: there is none. LM_USAGE names the field and,
 * in a schema, the location of what cannot be enforced. */
lm_status lm_constraints_compile(const lm_service *s, const lm_constraints *v, lm_grammar **out, lm_error *e);

/* Return the field of the constraint, by the name that the client sent. A string literal. */
const char *lm_constraints_field(const lm_constraints *v);

#endif
