/* schema.h - JSON Schema (2020-12, draft-07) to expressions: what its parts share.
 *
 * A value is described by a conjunction of schemas (places). It is spread into shapes, each of one type of JSON, whose union are the
 * values: `type` takes shapes away, anyOf multiplies them, bounds tighten them. A shape becomes an expression. Parts of objects and
 * arrays are conjunctions again, each compiled once as a rule, so recursion ends.
 *
 * Everything is either kept exactly, or narrowed (spelling of numbers, order of members), or refused. */
#ifndef LM_GRAMMAR_SCHEMA_H
#define LM_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "base/arena.h"
#include "base/map.h"
#include "grammar/grammar.h"

typedef enum lm_type { LM_NULL, LM_BOOLEAN, LM_NUMBER, LM_STRING, LM_ARRAY, LM_OBJECT, LM_N_TYPES } lm_type;

/* A schema where it stands. */
typedef struct lm_place {
    const json_t *schema, *resource;         /* what "#" in it means */
    const char   *pointer;
} lm_place;

typedef struct lm_places { const struct lm_places *next; lm_place place; } lm_places;
typedef struct lm_names { const struct lm_names *next; const char *name, *then; } lm_names;
typedef struct lm_values { const struct lm_values *next; const json_t *list; } lm_values;     /* an array: one of these */
typedef struct lm_amounts { const struct lm_amounts *next; double x; } lm_amounts;

/* What one schema says of the parts of arrays, or of objects. */
typedef struct lm_parts {
    const struct lm_parts *next;
    lm_place     at;                         /* the schema itself */
    const json_t *listed;                    /* prefixItems, or properties */
    const char   *listed_name;
    const json_t *patterns;                  /* patternProperties */
    const json_t *others;                    /* items behind the listed ones, or additionalProperties; NULL: any */
    const char   *others_name;
    bool          closed;                    /* no others, though the schema would let them: narrower, so not used to tell schemas apart */
} lm_parts;

typedef struct lm_bound { bool there, open; double x; } lm_bound;

typedef struct lm_shape {
    lm_type           type;
    const lm_values  *values;                /* enum, const */
    bool              integer;
    lm_bound          lo, hi;
    const lm_amounts *multiples;
    bool              has_language;          /* strings: UTF-8 of them, */
    lm_node           language;
    uint32_t          least, most;           /* characters, items or members */
    const lm_parts   *parts;
    const lm_names   *required, *needs;
    const lm_places  *names;                 /* propertyNames */
    const lm_names   *forbidden;
    uint32_t          shortest, longest;     /* texts of its formats have so many characters; longest 0: any number */
    bool              narrowed;              /* a format: narrower than its specification may be */
} lm_shape;

typedef struct lm_shapes { lm_shape **at; uint32_t n; } lm_shapes;

typedef struct lm_schema lm_schema;
typedef lm_status lm_schema_compile(lm_schema *s, const lm_places *all, lm_node *out);
typedef lm_status lm_shapes_apply_to(lm_schema *s, const lm_place *at, const lm_shapes *in, lm_shapes *out, const lm_places *chain);
typedef lm_status lm_schema_spread_to(lm_schema *s, const lm_places *all, lm_shapes *out, bool *any);

struct lm_schema {
    lm_terms                  *p;
    const lm_grammar_options *o;
    lm_arena                  arena;
    const json_t             *root;
    json_t                   *made;          /* lists that are not in the schema: freed with it */
    bool                      old;           /* draft-07 */
    lm_map                   *rules;         /* conjunction to rule */
    unsigned                  literal;       /* > 0: nothing may be narrower than it says: it is being taken away from something */
    unsigned                  depth, nested; /* schemas applied in one place; values in values */
    lm_error                 *e;
    lm_error                  mine;
    lm_node                   inside, after; /* white space next to a bracket or before a mark; after a mark */
    lm_node                   value, string, number, object, array;  /* any */
    lm_node                   string_character, colon;
    lm_schema_compile        *compile;       /* these three call what calls them: values hold values */
    lm_shapes_apply_to       *apply;
    lm_schema_spread_to      *spread;
};

/* "the keyword cannot be kept", at the keyword of a place. */
lm_status lm_schema_refuse(lm_schema *s, const lm_place *at, const char *keyword, const char *why);
lm_status lm_schema_refuse_part(lm_schema *s, const lm_place *at, const char *keyword, const char *why);      /* `why` says it all */
lm_status lm_schema_wrong(lm_schema *s, const lm_place *at, const char *keyword, const char *why);
lm_status lm_schema_memory(lm_schema *s);

/* A place below a place: of its keyword, and of a member or an element of that (NULL: none). */
lm_place lm_place_of(lm_schema *s, const lm_place *at, const char *keyword, const char *name, const json_t *schema);
lm_place lm_place_item(lm_schema *s, const lm_place *at, const char *keyword, size_t i, const json_t *schema);
const lm_places *lm_places_add(lm_schema *s, const lm_places *list, lm_place at);

/* json_ref.c: what `$ref` names. */
lm_status lm_schema_target(lm_schema *s, const lm_place *at, const char *ref, lm_place *out);

/* shapes.c */
lm_schema_spread_to lm_schema_spread;          /* of a conjunction; *any: it says nothing */
lm_shapes_apply_to  lm_shapes_apply;           /* tightened by one more schema; `chain`: those that it is being applied for */

/* shape.c */
bool      lm_shapes_add(lm_schema *s, lm_shapes *to, lm_shape *shape);
lm_shape *lm_shape_copy(lm_schema *s, const lm_shape *shape);

/* complement.c: the shapes without what the schema holds; LM_UNSUPPORTED where that cannot be said. */
lm_status lm_shapes_without(lm_schema *s, const lm_place *at, const char *keyword, const lm_shapes *in, lm_shapes *out);
/* Have two lists of shapes no value in common, for sure? */
lm_status lm_shapes_apart(lm_schema *s, const lm_shapes *a, const lm_shapes *b, bool *apart);

/* keywords.c: one keyword about one type, into a shape of that type. *known: there is such a keyword. */
lm_type   lm_json_type(const json_t *v);                                      /* integers are numbers */
bool      lm_schema_one_type(const json_t *schema, lm_type *out);           /* its keywords speak of one type, and nothing else does */
lm_status lm_schema_keyword(lm_schema *s, const lm_place *at, const char *keyword, const json_t *value, lm_shapes *shapes, bool *known);

/* json_string.c */
lm_node   lm_json_language(lm_schema *s, const lm_shape *shape);           /* of a shape of strings, as UTF-8 */
lm_node   lm_schema_string(lm_schema *s, const lm_shape *shape);
lm_node   lm_json_encoded(lm_terms *p, lm_node language);                   /* as it stands between quotes */
lm_node   lm_json_quoted(lm_terms *p, const char *text, size_t n);
/* Also how long its texts are, in `shape`. LM_NOTHING: not known. */
lm_status lm_json_format(lm_schema *s, const lm_place *at, const char *name, lm_shape *shape, lm_node *out);

/* json_number.c */
lm_status lm_json_number(lm_schema *s, const lm_shape *shape, lm_node *out);

/* json_value.c */
void    lm_json_prelude(lm_terms *p, lm_whitespace w, lm_schema *s);
lm_node lm_json_constant(lm_schema *s, const json_t *v);

/* part.c: of which schemas an element or a member is the conjunction. */
lm_status lm_parts_item(lm_schema *s, const lm_shape *shape, size_t i, const lm_places **out);
lm_status lm_parts_member(lm_schema *s, const lm_shape *shape, const char *name, const lm_places **out);
lm_status lm_parts_names(lm_schema *s, const lm_shape *shape, bool *any, lm_node *out);      /* the language of propertyNames */
lm_status lm_string_holds(lm_schema *s, lm_node language, const char *text, size_t n, bool *out);

/* holds.c: is a value one of the shape, its list of values left aside? */
lm_status lm_shape_holds(lm_schema *s, const lm_shape *shape, const json_t *v, bool *out);

/* parts.c: arrays and objects. */
lm_status lm_parts_array(lm_schema *s, const lm_shape *shape, lm_node *out);
lm_status lm_parts_object(lm_schema *s, const lm_shape *shape, lm_node *out);

/* schema_value.c: the rule of a conjunction. */
lm_schema_compile lm_schema_value;

/* strict.c: what OpenAI's strict mode demands. */
lm_status lm_schema_strict(lm_schema *s);

#endif
