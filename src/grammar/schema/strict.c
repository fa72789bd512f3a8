/* strict.c - check the additional requirements of OpenAI's strict mode. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema/schema.h"

enum { MAX_NAMES = 5000, MAX_LEVELS = 10, MAX_VALUES = 1000 };

typedef struct count { uint32_t names, values; } count;

static const char *const not_taken[] = {
    "allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties", NULL,
};

static lm_status check_object(lm_schema *s, const lm_place *at, count *c)
{
    const json_t *names = json_object_get(at->schema, "properties"),
                 *required = json_object_get(at->schema, "required");
    const char   *name;
    json_t       *value, *r;
    size_t        i;

    if (!json_is_false(json_object_get(at->schema, "additionalProperties")))
        return lm_schema_wrong(s, at, "additionalProperties", "must be false in strict mode");
    json_object_foreach(lm_json_iterable(names), name, value) {
        bool listed = false;
        json_array_foreach(required, i, r)
            listed |= json_is_string(r) && strcmp(json_string_value(r), name) == 0;
        if (!listed)
            return lm_schema_wrong(s, at, "required", "must list every property in strict mode");
        if (++c->names > MAX_NAMES)
            return lm_fail(s->e, LM_LIMIT, at->pointer, LM_NO_OFFSET,
                           "more than %d properties in strict mode", MAX_NAMES);
    }
    return LM_OK;
}

static bool is_object(const json_t *o)
{
    const json_t *type = json_object_get(o, "type");
    size_t        i;
    json_t       *t;

    json_array_foreach(type, i, t)
        if (json_is_string(t) && strcmp(json_string_value(t), "object") == 0)
            return true;
    return json_object_get(o, "properties") ||
           (json_is_string(type) && strcmp(json_string_value(type), "object") == 0);
}

static lm_status check(lm_schema *s, lm_place at, unsigned level, count *c)
{
    const char *keyword, *name;
    json_t     *value, *inner;
    size_t      i;

    if (!json_is_object(at.schema))
        return LM_OK;
    for (const char *const *n = not_taken; *n; n++)
        if (json_object_get(at.schema, *n))
            return lm_schema_wrong(s, &at, *n, "is not taken in strict mode");
    if (is_object(at.schema)) {
        LM_TRY(check_object(s, &at, c));
        if (++level > MAX_LEVELS)
            return lm_fail(s->e, LM_LIMIT, at.pointer, LM_NO_OFFSET,
                           "more than %d levels of objects in strict mode", MAX_LEVELS);
    }
    json_object_foreach(lm_json_iterable(at.schema), keyword, value) {
        bool by_name = strcmp(keyword, "properties") == 0 || strcmp(keyword, "$defs") == 0 ||
                       strcmp(keyword, "definitions") == 0;
        if (strcmp(keyword, "enum") == 0 && (c->values += (uint32_t)json_array_size(value)) > MAX_VALUES)
            return lm_fail(s->e, LM_LIMIT, at.pointer, LM_NO_OFFSET,
                           "more than %d values in enums in strict mode", MAX_VALUES);
        if (by_name)
            json_object_foreach(value, name, inner)
                LM_TRY(check(s, lm_place_of(s, &at, keyword, name, inner), keyword[0] == 'p' ? level : 0, c));
        if (strcmp(keyword, "items") == 0)
            LM_TRY(check(s, lm_place_of(s, &at, keyword, NULL, value), level, c));
        if (strcmp(keyword, "anyOf") == 0)
            json_array_foreach(value, i, inner)
                LM_TRY(check(s, lm_place_item(s, &at, keyword, i, inner), level, c));
    }
    return LM_OK;
}

lm_status lm_schema_strict(lm_schema *s)
{
    lm_place    root = { s->root, s->root, "#" };
    const char *type = json_string_value(json_object_get(s->root, "type"));
    count       c = { 0 };

    if (!type || strcmp(type, "object") != 0)
        return lm_schema_wrong(s, &root, "type", "must be object at the root in strict mode");
    if (json_object_get(s->root, "anyOf"))
        return lm_schema_wrong(s, &root, "anyOf", "is not taken at the root in strict mode");
    return check(s, root, 0, &c);
}
