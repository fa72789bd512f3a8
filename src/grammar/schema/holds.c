/* holds.c - test whether a value that a schema lists also fits its other keywords. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "grammar/explore.h"
#include "grammar/schema/schema.h"

static lm_status number_holds(lm_schema *s, const lm_shape *x, const json_t *v, bool *out)
{
    double   n = json_number_value(v);
    lm_shape rest = { .type = LM_NUMBER, .multiples = x->multiples };
    lm_expr_id language;

    bool below = x->lo.there && (n < x->lo.x || (n == x->lo.x && x->lo.open));
    bool above = x->hi.there && (n > x->hi.x || (n == x->hi.x && x->hi.open));
    *out = !below && !above && !(x->integer && floor(n) != n);
    if (!*out || !x->multiples)
        return LM_OK;
    LM_TRY(lm_json_number(s, &rest, &language));
    *out = !lm_explore_empty(s->p, lm_and(s->p, language, lm_json_constant(s, v)));
    return lm_terms_check(s->p, s->e);
}

static bool equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_array_size(a) == json_array_size(b) && json_is_array(b)) {
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!equal(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return true;
    }
    if (json_is_object(a) && json_is_object(b) && json_object_size(a) == json_object_size(b)) {
        const char *name;
        json_t     *x;
        json_object_foreach(lm_json_iterable(a), name, x)
            if (!json_object_get(b, name) || !equal(x, json_object_get(b, name)))
                return false;
        return true;
    }
    return json_equal(a, b);
}

static lm_status listed(lm_schema *s, const lm_shape *x, const json_t *v, bool *out)
{
    *out = true;
    for (const lm_values *l = x->values; l && *out; l = l->next) {
        *out = false;
        for (size_t i = 0; i < json_array_size(l->list) && !*out; i++)
            *out = equal(v, json_array_get(l->list, i));
        lm_terms_work(s->p, json_array_size(l->list));
    }
    return lm_terms_check(s->p, s->e);
}

static lm_status held_by_all(lm_schema *s, const lm_places *all, const json_t *v, bool *out)
{
    lm_shapes shapes;
    bool      any;

    LM_TRY(s->spread(s, all, &shapes, &any));
    *out = any;
    for (uint32_t i = 0; i < shapes.n && !*out; i++)
        if (shapes.at[i]->type == lm_json_type(v))
            LM_TRY(lm_shape_holds(s, shapes.at[i], v, out));
    return LM_OK;
}

static lm_status array_holds(lm_schema *s, const lm_shape *x, const json_t *v, bool *out)
{
    const lm_places *of;

    *out = json_array_size(v) >= x->min && json_array_size(v) <= x->max;
    for (size_t i = 0; i < json_array_size(v) && *out; i++) {
        LM_TRY(lm_parts_item(s, x, i, &of));
        LM_TRY(held_by_all(s, of, json_array_get(v, i), out));
    }
    return LM_OK;
}

static lm_status object_holds(lm_schema *s, const lm_shape *x, const json_t *v, bool *out)
{
    const lm_places *of;
    const char      *name;
    json_t          *value;
    lm_expr_id       names;
    bool             any;

    *out = json_object_size(v) >= x->min && json_object_size(v) <= x->max;
    for (const lm_names *n = x->required; n && *out; n = n->next)
        *out = json_object_get(v, n->name) != NULL;
    for (const lm_names *n = x->forbidden; n && *out; n = n->next)
        *out = json_object_get(v, n->name) == NULL;
    for (const lm_names *n = x->needs; n && *out; n = n->next)
        *out = !json_object_get(v, n->name) || json_object_get(v, n->then);
    LM_TRY(lm_parts_names(s, x, &any, &names));
    json_object_foreach(lm_json_iterable(v), name, value) {
        if (*out && !any)
            LM_TRY(lm_string_holds(s, names, name, strlen(name), out));
        if (!*out)
            break;
        LM_TRY(lm_parts_member(s, x, name, &of));
        LM_TRY(held_by_all(s, of, value, out));
    }
    return LM_OK;
}

lm_status lm_shape_holds(lm_schema *s, const lm_shape *x, const json_t *v, bool *out)
{
    if (s->depth > LM_GRAMMAR_DEPTH)
        return lm_fail(s->e, LM_LIMIT, NULL, LM_NO_OFFSET, "values are nested more than %d deep",
                       LM_GRAMMAR_DEPTH);
    LM_TRY(listed(s, x, v, out));
    if (!*out)
        return LM_OK;
    s->depth++;
    lm_status status = LM_OK;
    switch (x->type) {
    case LM_NUMBER: status = number_holds(s, x, v, out); break;
    case LM_STRING:
        status = lm_string_holds(s, lm_json_language(s, x), json_string_value(v), json_string_length(v), out);
        break;
    case LM_ARRAY:  status = array_holds(s, x, v, out); break;
    case LM_OBJECT: status = object_holds(s, x, v, out); break;
    default:        break;
    }
    s->depth--;
    return status;
}
