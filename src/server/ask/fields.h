/* fields.h - what a request's JSON body may hold: descriptors, from which come validation, docs/server/api.md and /openapi.json. */
#ifndef LM_SERVER_FIELDS_H
#define LM_SERVER_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

#include "lamina/buffer.h"

typedef enum lm_field_kind {
    LM_FIELD_BOOL,                   /* bool */
    LM_FIELD_I32,                    /* int32_t */
    LM_FIELD_U32,                    /* uint32_t */
    LM_FIELD_I64,                    /* int64_t */
    LM_FIELD_SEED,                   /* uint64_t; a negative number is as none */
    LM_FIELD_FLOAT,                  /* float */
    LM_FIELD_DOUBLE,                 /* double */
    LM_FIELD_STRING,                 /* const char *, as long as the body */
    LM_FIELD_WORD,                   /* int: index into `words` */
    LM_FIELD_ARRAY, LM_FIELD_OBJECT, /* json_t *, as long as the body */
    LM_FIELD_ANY,                    /* json_t *: whoever handles it checks it */
    LM_FIELD_HARMLESS,               /* accepted, changes nothing here: named in `warnings` */
    LM_FIELD_REFUSED,                /* means something that is not done here: an error, unless it is null, false, `min`, empty or
                                        `words`[0] ("true": false is the error) */
} lm_field_kind;

typedef struct lm_field {
    const char   *name;              /* NULL ends a table */
    lm_field_kind kind;
    size_t        offset;            /* of the value, in the values of its group */
    double        min, max;          /* of numbers; both 0: any */
    const char *const *words;        /* NULL-ended */
    bool          required;
    const char   *help;
} lm_field;

/* A field that clients send and that has no effect here; one that is refused, unless it asks for what is done anyway. */
#define LM_HARMLESS(name)     { name, LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL }
#define LM_REFUSED(name, why) { name, LM_FIELD_REFUSED, 0, 0, 0, NULL, false, why }

/* Fields that several routes share: their values are a struct at `base` in each route's own. */
typedef struct lm_field_group {
    const lm_field *fields;          /* NULL ends a route's groups */
    size_t          base;
} lm_field_group;

/* Read `body` (an object) into `values`, which hold the defaults. Members that are null, or empty texts, are as if they were not there.
 * LM_USAGE, the error's `where` the field: a type, a range, a word, one that is missing or refused, two names of one value that differ.
 * Members that no field is called by are removed; they and harmless ones are named in `warnings` (an array of strings). Such a member
 * whose name speaks of a constraint is LM_USAGE. */
lm_status lm_fields_read(const lm_field_group *groups, json_t *body, void *values, json_t *warnings, lm_error *e);

/* What JSON Schema calls the type of a field: "integer", "string" …; NULL: any. */
const char *lm_field_type(const lm_field *f);

#endif
