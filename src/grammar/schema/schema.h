/* schema.h - JSON Schema (2020-12, draft-07) to expressions: declarations that the parts of the compiler
 * share.
 *
 * A value is described by a conjunction of schemas (places). The conjunction is expanded into shapes, each of
 * one JSON type, whose union is the set of values: `type` removes shapes, anyOf multiplies them, bounds
 * restrict them. A shape becomes an expression. The parts of objects and arrays are conjunctions again. Each
 * conjunction is compiled once, as a rule, so recursion ends.
 *
 * Every keyword is enforced exactly, enforced more strictly (number spelling, order of members), or
 * rejected. */
#ifndef LM_GRAMMAR_SCHEMA_H
#define LM_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "base/arena.h"
#include "base/jsontext.h"
#include "base/map.h"
#include "grammar/grammar.h"

typedef enum lm_type { LM_NULL, LM_BOOLEAN, LM_NUMBER, LM_STRING, LM_ARRAY, LM_OBJECT, LM_N_TYPES } lm_type;

/* A schema and its location. */
typedef struct lm_place {
    const json_t *schema, *resource;         /* resource: what "#" in it refers to */
    const char   *pointer;
} lm_place;

typedef struct lm_places { const struct lm_places *next; lm_place place; } lm_places;
typedef struct lm_names { const struct lm_names *next; const char *name, *then; } lm_names;
/* an array: one of these */
typedef struct lm_values { const struct lm_values *next; const json_t *list; } lm_values;
typedef struct lm_amounts { const struct lm_amounts *next; double x; } lm_amounts;

/* What one schema says about the parts of arrays or objects. */
typedef struct lm_parts {
    const struct lm_parts *next;
    lm_place     at;                         /* the schema itself */
    const json_t *listed;                    /* prefixItems, or properties */
    const char   *listed_name;
    const json_t *patterns;                  /* patternProperties */
    const json_t *others;                    /* items after the listed ones, or additionalProperties; NULL:
                                                any */
    const char   *others_name;
    bool          closed;                    /* no others, though the schema allows them: stricter, so not
                                                used to tell schemas apart */
} lm_parts;

typedef struct lm_bound { bool there, open; double x; } lm_bound;

typedef struct lm_shape {
    lm_type           type;
    const lm_values  *values;                /* enum, const */
    bool              integer;
    lm_bound          lo, hi;
    const lm_amounts *multiples;
    bool              has_language;          /* strings: their language as UTF-8, */
    lm_expr_id        language;
    uint32_t          min, max;              /* characters, items or members */
    const lm_parts   *parts;
    const lm_names   *required, *needs;
    const lm_places  *names;                 /* propertyNames */
    const lm_names   *forbidden;
    uint32_t          shortest, longest;     /* bounds on the characters of its formats; longest 0: no
                                                limit */
    bool              narrowed;              /* has a format, which may be stricter than its specification */
} lm_shape;

typedef struct lm_shapes { lm_shape **at; uint32_t n; } lm_shapes;

typedef struct lm_schema lm_schema;
typedef lm_status lm_schema_compile(lm_schema *s, const lm_places *all, lm_expr_id *out);
typedef lm_status lm_shapes_apply_to(lm_schema *s, const lm_place *at, const lm_shapes *in, lm_shapes *out,
                                     const lm_places *chain);
typedef lm_status lm_schema_spread_to(lm_schema *s, const lm_places *all, lm_shapes *out, bool *any);

struct lm_schema {
    lm_terms                  *p;
    const lm_grammar_options *o;
    lm_arena                  arena;
    json_t                   *root;
    json_t                   *made;          /* lists that do not come from the schema; freed with it */
    bool                      old;           /* draft-07 */
    lm_map                   *rules;         /* conjunction to rule */
    unsigned                  literal;       /* > 0: nothing may be stricter, because the result is subtracted
                                                from other values */
    unsigned                  depth, nested; /* schemas applied in one place; nesting of values */
    lm_error                 *e;
    lm_error                  mine;
    lm_expr_id                inside, after; /* white space next to a bracket or before a comma or colon;
                                                after one */
    lm_expr_id                value, string, number, object, array;  /* any value, any string, … */
    lm_expr_id                string_character, colon;
    lm_schema_compile        *compile;       /* calls its callers: values contain values */
    lm_shapes_apply_to       *apply;
    lm_schema_spread_to      *spread;
};

/* Fail because the keyword at this place cannot be enforced. */
lm_status lm_schema_refuse(lm_schema *s, const lm_place *at, const char *keyword, const char *why);
/* `why`: whole message */
lm_status lm_schema_refuse_part(lm_schema *s, const lm_place *at, const char *keyword, const char *why);
lm_status lm_schema_wrong(lm_schema *s, const lm_place *at, const char *keyword, const char *why);
lm_status lm_schema_memory(lm_schema *s);

/* Return the place of a subschema: of a keyword, and of its member or element (NULL: none). */
lm_place lm_place_of(lm_schema *s, const lm_place *at, const char *keyword, const char *name,
                     const json_t *schema);
lm_place lm_place_item(lm_schema *s, const lm_place *at, const char *keyword, size_t i, const json_t *schema);
const lm_places *lm_places_add(lm_schema *s, const lm_places *list, lm_place at);

/* json_ref.c: find the target of a `$ref`. */
lm_status lm_schema_target(lm_schema *s, const lm_place *at, const char *ref, lm_place *out);

/* shapes.c */
lm_schema_spread_to lm_schema_spread;          /* of a conjunction; *any: it allows any value */
lm_shapes_apply_to  lm_shapes_apply;           /* apply one more schema; `chain`: the schemas that led to
                                                  it */

/* shape.c */
bool      lm_shapes_add(lm_schema *s, lm_shapes *to, lm_shape *shape);
lm_shape *lm_shape_copy(lm_schema *s, const lm_shape *shape);

/* complement.c: return the shapes without the values of the schema; LM_UNSUPPORTED if that cannot be
 * expressed. */
lm_status lm_shapes_without(lm_schema *s, const lm_place *at, const char *keyword, const lm_shapes *in,
                            lm_shapes *out);
/* Set *apart if two lists of shapes certainly have no value in common. */
lm_status lm_shapes_apart(lm_schema *s, const lm_shapes *a, const lm_shapes *b, bool *apart);

/* keywords.c: apply a keyword that constrains one type to the shapes of that type. *known: the keyword
 * exists. */
lm_type   lm_json_type(const json_t *v);                                      /* integers are numbers */
/* its keywords constrain a single type */
bool      lm_schema_one_type(const json_t *schema, lm_type *out);
lm_status lm_schema_keyword(lm_schema *s, const lm_place *at, const char *keyword, const json_t *value,
                            lm_shapes *shapes, bool *known);

/* json_string.c */
/* of a shape of strings, as UTF-8 */
lm_expr_id lm_json_language(lm_schema *s, const lm_shape *shape);
lm_expr_id lm_schema_string(lm_schema *s, const lm_shape *shape);
lm_expr_id lm_json_encoded(lm_terms *p, lm_expr_id language);               /* as written between quotes */
lm_expr_id lm_json_quoted(lm_terms *p, const char *text, size_t n);
/* Also sets the lengths of its texts in `shape`. LM_NOTHING: unknown format. */
lm_status lm_json_format(lm_schema *s, const lm_place *at, const char *name, lm_shape *shape,
                         lm_expr_id *out);

/* json_number.c */
lm_status lm_json_number(lm_schema *s, const lm_shape *shape, lm_expr_id *out);

/* json_value.c */
void    lm_json_prelude(lm_terms *p, lm_whitespace w, lm_schema *s);
lm_expr_id lm_json_constant(lm_schema *s, const json_t *v);

/* part.c: find the schemas whose conjunction describes an element or a member. */
lm_status lm_parts_item(lm_schema *s, const lm_shape *shape, size_t i, const lm_places **out);
lm_status lm_parts_member(lm_schema *s, const lm_shape *shape, const char *name, const lm_places **out);
/* the language of propertyNames */
lm_status lm_parts_names(lm_schema *s, const lm_shape *shape, bool *any, lm_expr_id *out);
lm_status lm_string_holds(lm_schema *s, lm_expr_id language, const char *text, size_t n, bool *out);

/* holds.c: test whether a value fits the shape, ignoring the shape's list of values. */
lm_status lm_shape_holds(lm_schema *s, const lm_shape *shape, const json_t *v, bool *out);

/* parts.c: arrays and objects. */
lm_status lm_parts_array(lm_schema *s, const lm_shape *shape, lm_expr_id *out);
lm_status lm_parts_object(lm_schema *s, const lm_shape *shape, lm_expr_id *out);

/* schema_value.c: return the rule of a conjunction. */
lm_schema_compile lm_schema_value;

/* strict.c: check the requirements of OpenAI's strict mode. */
lm_status lm_schema_strict(lm_schema *s);

#endif
