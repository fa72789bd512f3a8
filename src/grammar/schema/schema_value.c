/* schema_value.c - compile a conjunction of schemas to a rule. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/schema/schema.h"

/* ---- lists of values ---- */

static lm_status listed_values(lm_schema *s, const lm_shape *x, lm_expr_id *out)
{
    lm_shape    *others = lm_shape_copy(s, x);           /* the other conditions that a listed value must
                                                            satisfy */
    lm_node_list list = { 0 };
    lm_status    status = LM_OK;

    if (!others)
        return lm_schema_memory(s);
    others->values = x->values->next;
    for (size_t i = 0; i < json_array_size(x->values->list) && status == LM_OK; i++) {
        const json_t *v = json_array_get(x->values->list, i);
        bool          of_type = x->type == LM_NUMBER    ? json_is_number(v)
                                : x->type == LM_BOOLEAN ? json_is_boolean(v)
                                : x->type == LM_ARRAY   ? json_is_array(v)
                                : x->type == LM_OBJECT  ? json_is_object(v)
                                                        : json_is_null(v);
        bool          held = false;
        if (of_type)
            status = lm_shape_holds(s, others, v, &held);
        if (held)
            lm_list_add(s->p, &list, lm_json_constant(s, v));
    }
    *out = status == LM_OK ? lm_list_alt(s->p, &list, 0) : LM_NOTHING;
    lm_free(list.items);
    LM_TRY(status);
    return lm_terms_check(s->p, s->e);
}

static lm_status shape_value(lm_schema *s, const lm_shape *x, lm_expr_id *out)
{
    if (x->values && x->type != LM_STRING)
        return listed_values(s, x, out);
    switch (x->type) {
    case LM_NULL:    *out = lm_word(s->p, "null"); return LM_OK;
    case LM_BOOLEAN: *out = lm_alt(s->p, lm_word(s->p, "true"), lm_word(s->p, "false")); return LM_OK;
    case LM_NUMBER:  return lm_json_number(s, x, out);
    case LM_STRING:
        *out = lm_schema_string(s, x);
        return lm_terms_check(s->p, s->e);
    case LM_ARRAY:   return lm_parts_array(s, x, out);
    default:         return lm_parts_object(s, x, out);
    }
}

/* Put the expression of a string or number into its own rule, hence its own frame, so that its masks are
 * computed once. */
static lm_expr_id framed(lm_schema *s, const lm_shape *x, lm_expr_id n)
{
    if ((x->type != LM_STRING && x->type != LM_NUMBER) || n == LM_NOTHING)
        return n;
    uint32_t rule = lm_rule_new(s->p);
    lm_rule_define(s->p, rule, n);
    return lm_rule_node(s->p, rule);
}

/* ---- conjunctions ---- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t *x = a, *y = b;

    if (x[0] != y[0])
        return (x[0] > y[0]) - (x[0] < y[0]);
    return (x[1] > y[1]) - (x[1] < y[1]);
}

static lm_status key_of(lm_schema *s, const lm_places *all, lm_view *out)
{
    size_t n = 0, kept = 0;

    for (const lm_places *p = all; p; p = p->next)
        n++;
    uintptr_t (*key)[2] = lm_arena_array(&s->arena, n + 1, sizeof *key);
    if (!key)
        return lm_schema_memory(s);
    for (n = 0; all; all = all->next, n++) {
        key[n][0] = (uintptr_t)all->place.schema;
        key[n][1] = (uintptr_t)all->place.resource;
    }
    qsort(key, n, sizeof *key, by_address);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_address(key[i], key[i - 1]) != 0)
            memmove(key[kept++], key[i], sizeof *key);
    *out = (lm_view){ (const char *)key, kept * sizeof *key };
    return LM_OK;
}

lm_status lm_schema_value(lm_schema *s, const lm_places *all, lm_expr_id *out)
{
    lm_shapes shapes;
    lm_view   key;
    uint64_t  known;
    bool      any;
    lm_expr_id value = LM_NOTHING, one;

    LM_TRY(key_of(s, all, &key));
    if (lm_map_get(s->rules, key, &known)) {
        *out = lm_rule_node(s->p, (uint32_t)known);
        return LM_OK;
    }
    if (s->nested > LM_GRAMMAR_DEPTH)
        return lm_fail(s->e, LM_LIMIT, all ? all->place.pointer : NULL, LM_NO_OFFSET,
                       "schemas are nested more than %d deep", LM_GRAMMAR_DEPTH);
    uint32_t rule = lm_rule_new(s->p);
    if (!lm_map_add(s->rules, key, rule))
        return lm_schema_memory(s);
    s->nested++;
    LM_TRY(lm_schema_spread(s, all, &shapes, &any));
    if (any)
        value = s->value;
    for (uint32_t i = 0; i < shapes.n && !any; i++) {
        lm_status status = shape_value(s, shapes.at[i], &one);
        /* report it at the schema with these keywords */
        if (status != LM_OK && s->e->where[0] == '\0' && all)
            status = lm_fail(s->e, status, all->place.pointer, LM_NO_OFFSET, "%s", s->e->message);
        LM_TRY(status);
        value = lm_alt(s->p, value, framed(s, shapes.at[i], one));
    }
    s->nested--;
    lm_rule_define(s->p, rule, value);
    *out = lm_rule_node(s->p, rule);
    return lm_terms_check(s->p, s->e);
}
