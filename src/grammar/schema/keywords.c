/* keywords.c - keywords that constrain a single type. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema.h"

typedef struct use { lm_schema *s; const lm_place *at; const char *keyword; const json_t *value; } use;
typedef lm_status apply_keyword(const use *u, lm_shape *shape);

/* ---- values of keywords ---- */

static lm_status count_of(const use *u, uint32_t *out)
{
    double x = json_is_number(u->value) ? json_number_value(u->value) : -1;

    if (x < 0 || floor(x) != x)
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not a whole number of 0 or more");
    *out = x > 4e9 ? LM_UNBOUNDED : (uint32_t)x;
    return LM_OK;
}

static lm_status number_of(const use *u, double *out)
{
    if (!json_is_number(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not a number");
    *out = json_number_value(u->value);
    if (json_is_integer(u->value) && fabs(*out) > 0x1p53)
        return lm_schema_refuse(u->s, u->at, u->keyword, "an integer beyond 2^53");
    return LM_OK;
}

/* ---- numbers ---- */

static void tighten(lm_bound *b, double x, bool open, bool upper)
{
    if (!b->there || (upper ? x < b->x : x > b->x) || (x == b->x && open))
        *b = (lm_bound){ true, open, x };
}

static lm_status bound(const use *u, lm_shape *shape)
{
    double x = 0;
    bool   upper = strstr(u->keyword, "aximum") != NULL;

    if (json_is_integer(u->value) && fabs(json_number_value(u->value)) > 0x1p53 &&
        upper == (json_number_value(u->value) > 0))
        x = upper ? 0x1p53 : -0x1p53; /* bounds of int64 and uint64 mean none: enforce what
                                                            is exact */
    else
        LM_TRY(number_of(u, &x));
    if (json_is_real(u->value) && fabs(x) > 0x1p53 && upper == (x > 0))
        x = nextafter(x, 0);                             /* it may be an integer that was rounded outwards */
    tighten(upper ? &shape->hi : &shape->lo, x, u->keyword[0] == 'e', upper);
    return LM_OK;
}

static lm_status multiple_of(const use *u, lm_shape *shape)
{
    lm_amounts *a = lm_arena_new(&u->s->arena, 1, lm_amounts);
    double      x = 0;

    LM_TRY(number_of(u, &x));
    if (x <= 0)
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not greater than 0");
    if (!a)
        return lm_schema_memory(u->s);
    *a = (lm_amounts){ shape->multiples, x };
    shape->multiples = a;
    return LM_OK;
}

/* ---- counts ---- */

static lm_status count(const use *u, lm_shape *shape)
{
    uint32_t n = 0;

    LM_TRY(count_of(u, &n));
    if (u->keyword[1] == 'i' && n > shape->min)
        shape->min = n;
    if (u->keyword[1] == 'a' && n < shape->max)
        shape->max = n;
    return LM_OK;
}

/* ---- strings ---- */

static void add_language(lm_schema *s, lm_shape *shape, lm_expr_id n)
{
    shape->language     = shape->has_language ? lm_and(s->p, shape->language, n) : n;
    shape->has_language = true;
}

static lm_status pattern(const use *u, lm_shape *shape)
{
    lm_expr_id n = LM_NOTHING;

    if (!json_is_string(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not a string");
    lm_status status = lm_pattern(u->s->p,
                                  (lm_view){ json_string_value(u->value), json_string_length(u->value) },
                                  true, &n, u->s->e);
    if (status == LM_UNSUPPORTED || status == LM_USAGE) {
        char why[300];
        memcpy(why, u->s->e->message, sizeof why - 1);
        why[sizeof why - 1] = '\0';
        return status == LM_USAGE ? lm_schema_wrong(u->s, u->at, u->keyword, why)
                                  : lm_schema_refuse_part(u->s, u->at, u->keyword, why);
    }
    LM_TRY(status);
    add_language(u->s, shape, n);
    return LM_OK;
}

static lm_status format(const use *u, lm_shape *shape)
{
    lm_expr_id n = LM_NOTHING;

    if (!json_is_string(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not a string");
    LM_TRY(lm_json_format(u->s, u->at, json_string_value(u->value), shape, &n));
    if (n == LM_NOTHING)
        return LM_OK;                                    /* an annotation */
    add_language(u->s, shape, n);
    shape->narrowed = true;
    return LM_OK;
}

/* ---- arrays and objects ---- */

static lm_status unique(const use *u, lm_shape *shape)
{
    if (!json_is_boolean(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not a boolean");
    if (json_is_true(u->value) && shape->max > 1)
        return lm_schema_refuse(u->s, u->at, u->keyword, "items that differ from each other");
    return LM_OK;
}

static lm_status required(const use *u, lm_shape *shape)
{
    size_t  i;
    json_t *name;

    if (!json_is_array(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not an array");
    json_array_foreach(u->value, i, name) {
        lm_names *n = lm_arena_new(&u->s->arena, 1, lm_names);
        if (!json_is_string(name))
            return lm_schema_wrong(u->s, u->at, u->keyword, "has an element that is not a string");
        if (strlen(json_string_value(name)) != json_string_length(name))
            return lm_schema_refuse(u->s, u->at, u->keyword, "a name with a NUL");
        if (!n)
            return lm_schema_memory(u->s);
        *n = (lm_names){ shape->required, json_string_value(name), NULL };
        shape->required = n;
    }
    return LM_OK;
}

static lm_status property_names(const use *u, lm_shape *shape)
{
    shape->names = lm_places_add(u->s, shape->names, lm_place_of(u->s, u->at, u->keyword, NULL, u->value));
    return shape->names ? LM_OK : lm_schema_memory(u->s);
}

static lm_status needs(const use *u, lm_shape *shape)
{
    const char *name;
    json_t     *list, *then;
    size_t      i;

    if (!json_is_object(u->value))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not an object");
    json_object_foreach(lm_json_iterable(u->value), name, list) {
        if (!json_is_array(list))
            return lm_schema_refuse(u->s, u->at, u->keyword, "a schema that depends on a member");
        json_array_foreach(list, i, then) {
            lm_names *n = lm_arena_new(&u->s->arena, 1, lm_names);
            if (!json_is_string(then))
                return lm_schema_wrong(u->s, u->at, u->keyword, "has an element that is not a string");
            if (!n)
                return lm_schema_memory(u->s);
            *n = (lm_names){ shape->needs, name, json_string_value(then) };
            shape->needs = n;
        }
    }
    return LM_OK;
}

static lm_status add_parts(lm_schema *s, lm_shape *shape, lm_parts parts)
{
    lm_parts *p = lm_arena_new(&s->arena, 1, lm_parts);

    if (!p)
        return lm_schema_memory(s);
    *p = parts;
    p->next = shape->parts;
    shape->parts = p;
    return LM_OK;
}

static bool has(const use *u, const char *keyword) { return json_object_get(u->at->schema, keyword) != NULL; }

/* Handle prefixItems, items and additionalItems together, when the first of them is processed. */
static lm_status items(const use *u, lm_shape *shape)
{
    const json_t *o = u->at->schema, *prefix = json_object_get(o, "prefixItems"),
                 *each = json_object_get(o, "items");
    lm_parts parts = {
        .at = *u->at, .listed = prefix, .listed_name = "prefixItems", .others = each, .others_name = "items"
    };

    if (prefix && u->keyword[0] != 'p')
        return LM_OK;
    if (prefix && (!json_is_array(prefix) || json_is_array(each) || has(u, "additionalItems")))
        return lm_schema_wrong(u->s, u->at, u->keyword,
                               "cannot be combined with the other keywords about items");
    if (!prefix && json_is_array(each))
        parts = (lm_parts){ .at = *u->at,
                            .listed = each,
                            .listed_name = "items",
                            .others = json_object_get(o, "additionalItems"),
                            .others_name = "additionalItems" };
    else if (u->keyword[0] == 'a')
        return LM_OK;                                    /* without a list of items it has no effect */
    if (u->keyword[0] == 'a')
        return LM_OK;
    return add_parts(u->s, shape, parts);
}

static lm_status properties(const use *u, lm_shape *shape)
{
    const json_t *o = u->at->schema, *names = json_object_get(o, "properties"),
                 *patterns = json_object_get(o, "patternProperties"),
                 *others = json_object_get(o, "additionalProperties");

    if ((names && !json_is_object(names)) || (patterns && !json_is_object(patterns)))
        return lm_schema_wrong(u->s, u->at, u->keyword, "is not an object");
    if ((u->keyword[0] == 'a' && (names || patterns)) ||
        (u->keyword[0] == 'p' && u->keyword[1] == 'a' && names))
        return LM_OK; /* already handled with the others */
    return add_parts(u->s, shape,
                     (lm_parts){ .at = *u->at,
                                 .listed = names,
                                 .listed_name = "properties",
                                 .patterns = patterns,
                                 .others = others,
                                 .others_name = "additionalProperties",
                                 .closed = names && !others && !patterns && !(u->s->o && u->s->o->open) });
}

/* Without other schemas applied in the same place, unevaluatedItems and unevaluatedProperties mean items and
 * additionalProperties. */
static lm_status unevaluated(const use *u, lm_shape *shape)
{
    static const char *const applied[] = { "$ref", "$dynamicRef",      "allOf",   "anyOf", "oneOf", "not",
                                           "if",   "dependentSchemas", "contains" };
    bool object = shape->type == LM_OBJECT;

    for (size_t i = 0; i < sizeof applied / sizeof *applied; i++)
        if (has(u, applied[i]))
            return lm_schema_refuse(u->s, u->at, u->keyword, "what other schemas have not looked at");
    if (has(u, object ? "additionalProperties" : "items"))
        return LM_OK;
    lm_parts parts = { .at = *u->at,
                       .listed_name = object ? "properties" : "prefixItems",
                       .others = u->value,
                       .others_name = u->keyword };
    parts.listed = json_object_get(u->at->schema, parts.listed_name);
    if (object)
        parts.patterns = json_object_get(u->at->schema, "patternProperties");
    return add_parts(u->s, shape, parts);
}

/* ---- table of keywords ---- */

static const struct keyword { const char *name; lm_type type; apply_keyword *apply; } keywords[] = {
    { "minimum", LM_NUMBER, bound },
    { "maximum", LM_NUMBER, bound },
    { "exclusiveMinimum", LM_NUMBER, bound },
    { "exclusiveMaximum", LM_NUMBER, bound },
    { "multipleOf", LM_NUMBER, multiple_of },
    { "minLength", LM_STRING, count },
    { "maxLength", LM_STRING, count },
    { "pattern", LM_STRING, pattern },
    { "format", LM_STRING, format },
    { "minItems", LM_ARRAY, count },
    { "maxItems", LM_ARRAY, count },
    { "prefixItems", LM_ARRAY, items },
    { "items", LM_ARRAY, items },
    { "additionalItems", LM_ARRAY, items },
    { "uniqueItems", LM_ARRAY, unique },
    { "unevaluatedItems", LM_ARRAY, unevaluated },
    { "minProperties", LM_OBJECT, count },
    { "maxProperties", LM_OBJECT, count },
    { "properties", LM_OBJECT, properties },
    { "patternProperties", LM_OBJECT, properties },
    { "additionalProperties", LM_OBJECT, properties },
    { "propertyNames", LM_OBJECT, property_names },
    { "required", LM_OBJECT, required },
    { "dependentRequired", LM_OBJECT, needs },
    { "dependencies", LM_OBJECT, needs },
    { "unevaluatedProperties", LM_OBJECT, unevaluated },
};

bool lm_schema_one_type(const json_t *schema, lm_type *out)
{
    static const char *const elsewhere[] = { "type",  "enum",  "const", "$ref", "allOf",
                                             "anyOf", "oneOf", "not",   "if" };
    bool found = false;

    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (json_object_get(schema, elsewhere[i]))
            return false;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (!json_object_get(schema, keywords[i].name))
            continue;
        if (found && keywords[i].type != *out)
            return false;
        *out  = keywords[i].type;
        found = true;
    }
    return found;
}

lm_status lm_schema_keyword(lm_schema *s, const lm_place *at, const char *keyword, const json_t *value,
                            lm_shapes *shapes, bool *known)
{
    const use u = { s, at, keyword, value };

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const struct keyword *k = &keywords[i];
        if (strcmp(keyword, k->name) != 0)
            continue;
        *known = true;
        for (uint32_t j = 0; j < shapes->n; j++) {
            if (shapes->at[j]->type != k->type)
                continue;
            lm_shape *mine = lm_shape_copy(s, shapes->at[j]);
            if (!mine)
                return lm_schema_memory(s);
            shapes->at[j] = mine;
            LM_TRY(k->apply(&u, mine));
        }
        return LM_OK;
    }
    *known = false;
    return LM_OK;
}
