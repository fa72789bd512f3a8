/* shapes.c - expand schemas into shapes. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema/schema.h"

enum { MAX_SHAPES = 2000 };

static const char *const annotations[] = {
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "contentEncoding", "contentMediaType",
    "contentSchema", "$schema", "$id", "$anchor", "$defs", "definitions", "then", "else", NULL,
};
static const char *const refused[] = {
    "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "contains", "minContains", "maxContains",
    "dependentSchemas", NULL,
};

static bool is_listed(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static lm_status add_all(lm_schema *s, lm_shapes *to, const lm_shapes *from)
{
    if (to->n + from->n > MAX_SHAPES)
        return lm_fail(s->e, LM_LIMIT, NULL, LM_NO_OFFSET,
                       "the schema has more than %d combinations of alternatives", MAX_SHAPES);
    for (uint32_t i = 0; i < from->n; i++)
        if (!lm_shapes_add(s, to, from->at[i]))
            return lm_schema_memory(s);
    return LM_OK;
}

/* ---- types and constants ---- */

static lm_status type_named(lm_schema *s, const lm_place *at, const json_t *name, lm_type *out, bool *integer)
{
    static const char *const names[] = { "null", "boolean", "number", "string", "array", "object" };
    const char *word = json_string_value(name);

    *integer = word && strcmp(word, "integer") == 0;
    *out     = LM_NUMBER;
    if (*integer)
        return LM_OK;
    for (unsigned i = 0; word && i < LM_N_TYPES; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = (lm_type)i;
            return LM_OK;
        }
    return lm_schema_wrong(s, at, "type", "is not a JSON type");
}

static lm_status apply_type(lm_schema *s, const lm_place *at, const json_t *value, lm_shapes *shapes)
{
    bool      has[LM_N_TYPES] = { false }, whole = false, integer;
    lm_type   type;
    lm_shapes out = { 0 };
    size_t    n = json_is_array(value) ? json_array_size(value) : 1;

    if (json_is_array(value) && n == 0)
        return lm_schema_wrong(s, at, "type", "is empty");
    for (size_t i = 0; i < n; i++) {
        LM_TRY(type_named(s, at, json_is_array(value) ? json_array_get(value, i) : value, &type, &integer));
        whole |= type == LM_NUMBER && !integer;
        has[type] = true;
    }
    for (uint32_t i = 0; i < shapes->n; i++) {
        lm_shape *x = shapes->at[i];
        if (!has[x->type])
            continue;
        if (x->type == LM_NUMBER && !whole && !x->integer) {
            if (!(x = lm_shape_copy(s, x)))
                return lm_schema_memory(s);
            x->integer = true;
        }
        if (!lm_shapes_add(s, &out, x))
            return lm_schema_memory(s);
    }
    *shapes = out;
    return LM_OK;
}

lm_type lm_json_type(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:    return LM_NULL;
    case JSON_TRUE:
    case JSON_FALSE:   return LM_BOOLEAN;
    case JSON_STRING:  return LM_STRING;
    case JSON_ARRAY:   return LM_ARRAY;
    case JSON_OBJECT:  return LM_OBJECT;
    default:           return LM_NUMBER;
    }
}

static lm_status apply_values(lm_schema *s, const lm_place *at, const char *keyword, const json_t *value,
                              lm_shapes *shapes)
{
    lm_shapes out = { 0 };
    bool      has[LM_N_TYPES] = { false };
    const json_t *list = value;

    if (strcmp(keyword, "enum") == 0) {
        if (!json_is_array(value))
            return lm_schema_wrong(s, at, keyword, "is not an array");
    } else {                                             /* const: a list with one element, freed with the
                                                            schema */
        json_t *one = json_array(), *same = (json_t *)(uintptr_t)value;     /* to count one more reference */
        if (!one || json_array_append(one, same) != 0 || json_array_append_new(s->made, one) != 0)
            return lm_schema_memory(s);
        list = one;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        has[lm_json_type(json_array_get(list, i))] = true;
    for (uint32_t i = 0; i < shapes->n; i++) {
        lm_values *v = lm_arena_new(&s->arena, 1, lm_values);
        lm_shape  *x = lm_shape_copy(s, shapes->at[i]);
        if (!v || !x)
            return lm_schema_memory(s);
        if (!has[x->type])
            continue;
        *v = (lm_values){ x->values, list };
        x->values = v;
        if (!lm_shapes_add(s, &out, x))
            return lm_schema_memory(s);
    }
    *shapes = out;
    return LM_OK;
}

/* ---- schemas applied in place ---- */

static lm_status apply_ref(lm_schema *s, const lm_place *at, const json_t *value, lm_shapes *shapes,
                           const lm_places *chain)
{
    lm_place  target;
    lm_shapes out = { 0 };

    if (!json_is_string(value))
        return lm_schema_wrong(s, at, "$ref", "is not a string");
    LM_TRY(lm_schema_target(s, at, json_string_value(value), &target));
    LM_TRY(lm_shapes_apply(s, &target, shapes, &out, chain));
    *shapes = out;
    return LM_OK;
}

static lm_status apply_all(lm_schema *s, const lm_place *at, const json_t *list, lm_shapes *shapes,
                           const lm_places *chain)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        lm_place  one = lm_place_item(s, at, "allOf", i, json_array_get(list, i));
        lm_shapes out = { 0 };
        LM_TRY(lm_shapes_apply(s, &one, shapes, &out, chain));
        *shapes = out;
    }
    return LM_OK;
}

static lm_status apply_any(lm_schema *s, const lm_place *at, const json_t *list, lm_shapes *shapes,
                           const lm_places *chain)
{
    lm_shapes all = { 0 };

    for (size_t i = 0; i < json_array_size(list); i++) {
        lm_place  one = lm_place_item(s, at, "anyOf", i, json_array_get(list, i));
        lm_shapes out = { 0 };
        LM_TRY(lm_shapes_apply(s, &one, shapes, &out, chain));
        LM_TRY(add_all(s, &all, &out));
    }
    *shapes = all;
    return LM_OK;
}

static lm_status only_type(lm_schema *s, const lm_shapes *in, lm_type type, lm_shapes *out)
{
    *out = (lm_shapes){ 0 };
    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i]->type == type && !lm_shapes_add(s, out, in->at[i]))
            return lm_schema_memory(s);
    return LM_OK;
}

/* Exactly one alternative, for values of one type: if the alternatives are certainly disjoint, any of them;
 * otherwise each one without the values of the others. */
static lm_status one_of_type(lm_schema *s, const lm_place *at, const json_t *list, const lm_shapes *each,
                             lm_type type, lm_shapes *all)
{
    size_t    n = json_array_size(list);
    lm_shapes a, b, rest, out;
    bool      apart = true;

    for (size_t i = 0; i < n && apart; i++)
        for (size_t k = i + 1; k < n && apart; k++) {
            LM_TRY(only_type(s, &each[i], type, &a));
            LM_TRY(only_type(s, &each[k], type, &b));
            LM_TRY(lm_shapes_apart(s, &a, &b, &apart));
        }
    for (size_t i = 0; i < n; i++) {
        LM_TRY(only_type(s, &each[i], type, &rest));
        for (size_t k = 0; k < n && !apart && rest.n; k++) {
            lm_place other = lm_place_item(s, at, "oneOf", k, json_array_get(list, k));
            if (k == i)
                continue;
            LM_TRY(lm_shapes_without(s, &other, "oneOf", &rest, &out));
            rest = out;
        }
        LM_TRY(add_all(s, all, &rest));
    }
    return LM_OK;
}

static lm_status apply_one(lm_schema *s, const lm_place *at, const json_t *list, lm_shapes *shapes,
                           const lm_places *chain)
{
    size_t    n = json_array_size(list);
    lm_shapes all = { 0 }, *each = lm_arena_array(&s->arena, n, sizeof *each);

    if (!each)
        return lm_schema_memory(s);
    if (!lm_terms_work(s->p, n * n / 2))                 /* all pairs are compared */
        return lm_terms_check(s->p, s->e);
    s->literal++;
    for (size_t i = 0; i < n; i++) {
        lm_place one = lm_place_item(s, at, "oneOf", i, json_array_get(list, i));
        LM_TRY(lm_shapes_apply(s, &one, shapes, &each[i], chain));
    }
    for (unsigned t = 0; t < LM_N_TYPES; t++)
        LM_TRY(one_of_type(s, at, list, each, (lm_type)t, &all));
    s->literal--;
    *shapes = all;
    return LM_OK;
}

static lm_status apply_not(lm_schema *s, const lm_place *at, const json_t *value, lm_shapes *shapes,
                           const lm_places *chain)
{
    (void)chain;                                         /* the complement starts a new chain */
    lm_place  other = lm_place_of(s, at, "not", NULL, value);
    lm_shapes out = { 0 };

    s->literal++;
    LM_TRY(lm_shapes_without(s, &other, "not", shapes, &out));
    s->literal--;
    *shapes = out;
    return LM_OK;
}

/* if and then; or not if, and else. */
static lm_status apply_if(lm_schema *s, const lm_place *at, const json_t *value, lm_shapes *shapes,
                          const lm_places *chain)
{
    const json_t *then = json_object_get(at->schema, "then"),
                 *otherwise = json_object_get(at->schema, "else");
    lm_place      test = lm_place_of(s, at, "if", NULL, value);
    lm_shapes     yes = { 0 }, no = { 0 }, out = { 0 };

    if (!then && !otherwise)
        return LM_OK;
    s->literal++;
    LM_TRY(lm_shapes_apply(s, &test, shapes, &yes, chain));
    LM_TRY(lm_shapes_without(s, &test, "if", shapes, &no));
    s->literal--;
    if (then) {
        lm_place p = lm_place_of(s, at, "then", NULL, then);
        LM_TRY(lm_shapes_apply(s, &p, &yes, &out, chain));
        yes = out;
        out = (lm_shapes){ 0 };
    }
    if (otherwise) {
        lm_place p = lm_place_of(s, at, "else", NULL, otherwise);
        LM_TRY(lm_shapes_apply(s, &p, &no, &out, chain));
        no = out;
    }
    LM_TRY(add_all(s, &yes, &no));
    *shapes = yes;
    return LM_OK;
}

static const struct applied {
    const char *keyword;
    bool        list;
    lm_status (*apply)(lm_schema *, const lm_place *, const json_t *, lm_shapes *, const lm_places *);
} applied[] = {
    { "$ref", false, apply_ref }, { "allOf", true, apply_all }, { "anyOf", true, apply_any }, { "oneOf", true, apply_one },
    { "not", false, apply_not },  { "if", false, apply_if },
};

/* ---- schemas ---- */

static lm_status apply_keyword(lm_schema *s, const lm_place *at, const char *keyword, const json_t *value,
                               lm_shapes *shapes, const lm_places *chain)
{
    bool known;

    if (strcmp(keyword, "type") == 0)
        return apply_type(s, at, value, shapes);
    if (strcmp(keyword, "enum") == 0 || strcmp(keyword, "const") == 0)
        return apply_values(s, at, keyword, value, shapes);
    for (size_t i = 0; i < sizeof applied / sizeof *applied; i++)
        if (strcmp(keyword, applied[i].keyword) == 0) {
            if (applied[i].list && (!json_is_array(value) || json_array_size(value) == 0))
                return lm_schema_wrong(s, at, keyword, "is not an array of schemas");
            return applied[i].apply(s, at, value, shapes, chain);
        }
    LM_TRY(lm_schema_keyword(s, at, keyword, value, shapes, &known));
    if (known || is_listed(annotations, keyword) || strncmp(keyword, "x-", 2) == 0)
        return LM_OK;
    return lm_schema_refuse(s, at, keyword,
                            is_listed(refused, keyword) ? "what it says" : "a keyword that is not known");
}

static lm_status go_deeper(lm_schema *s, const lm_place *at, const lm_places *chain)
{
    if (++s->depth > LM_GRAMMAR_DEPTH)
        return lm_fail(s->e, LM_LIMIT, at->pointer, LM_NO_OFFSET, "schemas are nested more than %d deep",
                       LM_GRAMMAR_DEPTH);
    for (; chain; chain = chain->next)
        if (chain->place.schema == at->schema)
            return lm_schema_wrong(s, at, "$ref", "refers to itself without an end");
    return LM_OK;
}

lm_status lm_shapes_apply(lm_schema *s, const lm_place *at, const lm_shapes *in, lm_shapes *out,
                          const lm_places *chain)
{
    const json_t    *o = at->schema, *ref;
    const lm_places *mine;
    const char      *keyword;
    json_t          *value;
    lm_shapes        shapes = { 0 };

    *out = (lm_shapes){ 0 };
    if (json_is_false(o))
        return LM_OK;
    LM_TRY(add_all(s, &shapes, in));
    if (json_is_true(o)) {
        *out = shapes;
        return LM_OK;
    }
    if (!json_is_object(o))
        return lm_schema_wrong(s, at, NULL, "is neither an object nor a boolean");
    LM_TRY(go_deeper(s, at, chain));
    if (!(mine = lm_places_add(s, chain, *at)))
        return lm_schema_memory(s);
    lm_type type;
    if (!s->literal && !(s->o && s->o->open) && lm_schema_one_type(o, &type))
        LM_TRY(only_type(s, in, type, &shapes));
    if (s->old && (ref = json_object_get(o, "$ref"))) {  /* draft-07: siblings of $ref are ignored */
        LM_TRY(apply_ref(s, at, ref, &shapes, mine));
    } else {
        json_object_foreach(lm_json_iterable(o), keyword, value)
            LM_TRY(apply_keyword(s, at, keyword, value, &shapes, mine));
    }
    s->depth--;
    *out = shapes;
    return lm_terms_check(s->p, s->e);
}

lm_status lm_schema_spread(lm_schema *s, const lm_places *all, lm_shapes *out, bool *any)
{
    lm_shapes shapes = { 0 };
    lm_shape *first[LM_N_TYPES];

    for (unsigned i = 0; i < LM_N_TYPES; i++) {
        first[i] = lm_arena_new(&s->arena, 1, lm_shape);
        if (!first[i])
            return lm_schema_memory(s);
        *first[i] = (lm_shape){ .type = (lm_type)i, .max = LM_UNBOUNDED };
        if (!lm_shapes_add(s, &shapes, first[i]))
            return lm_schema_memory(s);
    }
    for (; all; all = all->next) {
        LM_TRY(lm_shapes_apply(s, &all->place, &shapes, out, NULL));
        shapes = *out;
    }
    *any = shapes.n == LM_N_TYPES;
    for (unsigned i = 0; i < LM_N_TYPES && *any; i++)
        *any = shapes.at[i] == first[i];
    *out = shapes;
    return LM_OK;
}
