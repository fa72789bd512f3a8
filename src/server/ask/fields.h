/* fields.h - the fields of a request's JSON body: descriptors, from which validation, docs/server/api.md and
 * /openapi.json are derived.
 *
 * A field is one row of a table: name, kind, place in the values, range, help. What is read points into the
 * body. Threads: any, one at a time per body. */
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
    LM_FIELD_SEED,                   /* uint64_t; a negative number counts as not given */
    LM_FIELD_FLOAT,                  /* float */
    LM_FIELD_DOUBLE,                 /* double */
    LM_FIELD_STRING,                 /* const char *, valid as long as the body */
    LM_FIELD_WORD,                   /* int: index into `words` */
    LM_FIELD_ARRAY, LM_FIELD_OBJECT, /* json_t *, valid as long as the body */
    LM_FIELD_ANY,                    /* json_t *: the handler checks it */
    LM_FIELD_IGNORED,                /* accepted, has no effect: named in `warnings` */
    LM_FIELD_REFUSED,                /* not supported: an error, unless the value is null, false, `min`,
                                        empty or one of `words` (if the first is "true", false is an
                                        error) */
} lm_field_kind;

typedef struct lm_field {
    const char   *name;              /* NULL ends a table */
    lm_field_kind kind;
    size_t        offset;            /* of the value in its group's values */
    double        min, max;          /* of numbers; both 0: the range of the type */
    const char *const *words;        /* NULL-ended */
    bool          required;
    const char   *help;
} lm_field;

/* A field that clients send and that has no effect here; a field that is rejected, unless it requests the
 * default behaviour. */
#define LM_IGNORED(name)     { name, LM_FIELD_IGNORED, 0, 0, 0, NULL, false, NULL }
#define LM_REFUSED(name, why) { name, LM_FIELD_REFUSED, 0, 0, 0, NULL, false, why }

/* Fields that several routes share: their values are a struct at `base` in the values of each route. */
typedef struct lm_field_group {
    const lm_field *fields;          /* NULL ends a route's groups */
    size_t          base;
} lm_field_group;

/* Read `body` (an object) into `values`, which contain the defaults. Null members, and strings and words that
 * are empty, count as missing. LM_USAGE, with the field as `where`: a wrong type, a number out of range, an
 * unknown word, a missing or rejected field, two names of one value that differ. Unknown members are removed;
 * they and harmless ones are named in `warnings` (an array of strings). An unknown member whose name suggests
 * a constraint is LM_USAGE. */
lm_status lm_fields_read(const lm_field_group *groups, json_t *body, void *values, json_t *warnings,
                         lm_error *e);

/* Add a warning, of up to 500 bytes. */
void lm_field_warn(json_t *warnings, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Warn about the members of `o`, the value of a field, that are not null and not among `known`, names
 * separated by spaces. */
void lm_field_warn_members(json_t *warnings, const char *field, json_t *o, const char *known);

/* Return the number with the fewest digits that is this float: 0.7, as the client sent it. */
json_t *lm_field_float(float value);

/* Return the JSON Schema type of a field: "integer", "string" …; NULL: any. */
const char *lm_field_type(const lm_field *f);

#endif
