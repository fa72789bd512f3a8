/* complement.c - subtract the values of a schema, and test whether two schemas are disjoint. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "grammar/charset.h"
#include "grammar/explore.h"
#include "grammar/schema/schema.h"

enum { MAX_DEPTH = 6, WORK_OF_SPREADING = 256 };        /* merging schemas also takes memory */

static bool is_plain(const lm_shape *x)
{
    return !x->values && !x->integer && !x->lo.there && !x->hi.there && !x->multiples && !x->has_language &&
           x->min == 0 && x->max == LM_UNBOUNDED && !x->parts && !x->required && !x->needs && !x->names &&
           !x->forbidden;
}

/* ---- difference of two shapes of one type ---- */

static lm_status keep(lm_schema *s, const lm_shape *x, lm_shapes *out, lm_shape **copy)
{
    *copy = lm_shape_copy(s, x);
    if (!*copy || !lm_shapes_add(s, out, *copy))
        return lm_schema_memory(s);
    return LM_OK;
}

static void tighten(lm_bound *b, double x, bool open, bool upper)
{
    if (!b->there || (upper ? x < b->x : x > b->x) || (x == b->x && open))
        *b = (lm_bound){ true, open, x };
}

/* Add the shapes below the lower bound and above the upper bound. */
static lm_status outside(lm_schema *s, const lm_shape *x, lm_bound lo, lm_bound hi, lm_shapes *out)
{
    lm_shape *copy;

    if (lo.there) {
        LM_TRY(keep(s, x, out, &copy));
        tighten(&copy->hi, lo.x, !lo.open, true);
    }
    if (hi.there) {
        LM_TRY(keep(s, x, out, &copy));
        tighten(&copy->lo, hi.x, !hi.open, false);
    }
    return LM_OK;
}

static lm_status number_without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out,
                                bool *known)
{
    lm_shape y_bounds = *y;

    y_bounds.lo.there = y_bounds.hi.there = false;
    if (y->integer && x->integer)
        y_bounds.integer = false;
    if (is_plain(&y_bounds))
        return outside(s, x, y->lo, y->hi, out);
    y_bounds = *y;
    y_bounds.values = NULL;
    *known = is_plain(&y_bounds) && y->values && !y->values->next;
    if (!*known)
        return LM_OK;
    lm_shapes rest = { 0 };                              /* without the listed values: the intervals between
                                                            them */
    lm_shape *all = lm_shape_copy(s, x);
    if (!all || !lm_shapes_add(s, &rest, all))
        return lm_schema_memory(s);
    for (size_t i = 0; i < json_array_size(y->values->list); i++) {
        const json_t *v = json_array_get(y->values->list, i);
        lm_shapes     next = { 0 };
        if (!json_is_number(v))
            continue;
        lm_bound at = { true, false, json_number_value(v) };
        if (fabs(at.x) > 9e15) {
            *known = false;
            return LM_OK;
        }
        for (uint32_t k = 0; k < rest.n; k++)
            LM_TRY(outside(s, rest.at[k], at, at, &next));
        rest = next;
    }
    for (uint32_t k = 0; k < rest.n; k++)
        if (!lm_shapes_add(s, out, rest.at[k]))
            return lm_schema_memory(s);
    return LM_OK;
}

static lm_status string_without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out)
{
    lm_shape *copy;
    lm_expr_id other = lm_not(s->p, lm_json_language(s, y));

    LM_TRY(keep(s, x, out, &copy));
    copy->language     = copy->has_language ? lm_and(s->p, copy->language, other) : other;
    copy->has_language = true;
    return LM_OK;
}

static lm_status boolean_without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out)
{
    lm_shape *copy;

    for (int truth = 0; truth < 2; truth++) {
        bool held = true;
        for (const lm_values *v = y->values; v; v = v->next) {
            bool here = false;
            for (size_t i = 0; i < json_array_size(v->list); i++)
                here |= truth ? json_is_true(json_array_get(v->list, i))
                              : json_is_false(json_array_get(v->list, i));
            held &= here;
        }
        if (held)
            continue;
        json_t    *list = json_array();
        lm_values *v = lm_arena_new(&s->arena, 1, lm_values);
        if (!v || !list || json_array_append_new(list, json_boolean(truth)) != 0 ||
            json_array_append_new(s->made, list) != 0)
            return lm_schema_memory(s);
        LM_TRY(keep(s, x, out, &copy));
        *v = (lm_values){ copy->values, list };
        copy->values = v;
    }
    return LM_OK;
}

/* Add the shapes with fewer than the minimum and with more than the maximum. */
static lm_status counts_without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out)
{
    lm_shape *copy;

    if (y->min > 0) {
        LM_TRY(keep(s, x, out, &copy));
        if (copy->max > y->min - 1)
            copy->max = y->min - 1;
    }
    if (y->max != LM_UNBOUNDED) {
        LM_TRY(keep(s, x, out, &copy));
        if (copy->min < y->max + 1)
            copy->min = y->max + 1;
    }
    return LM_OK;
}

/* Add, per required name, the shape in which it is missing. */
static lm_status names_without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out)
{
    lm_shape *copy;

    for (const lm_names *n = y->required; n; n = n->next) {
        lm_names *f = lm_arena_new(&s->arena, 1, lm_names);
        if (!f)
            return lm_schema_memory(s);
        LM_TRY(keep(s, x, out, &copy));
        *f = (lm_names){ copy->forbidden, n->name, NULL };
        copy->forbidden = f;
    }
    return LM_OK;
}

static lm_status without(lm_schema *s, const lm_shape *x, const lm_shape *y, lm_shapes *out, bool *known)
{
    lm_shape rest = *y;

    *known = !y->narrowed;
    if (is_plain(y) || y->narrowed)
        return LM_OK;
    rest.min = 0;
    rest.max  = LM_UNBOUNDED;
    switch (y->type) {
    case LM_NULL:    return LM_OK;                       /* enum of null */
    case LM_BOOLEAN: return boolean_without(s, x, y, out);
    case LM_NUMBER:  return number_without(s, x, y, out, known);
    case LM_STRING:  return string_without(s, x, y, out);
    case LM_ARRAY:
        *known = is_plain(&rest);
        return *known ? counts_without(s, x, y, out) : LM_OK;
    default:
        if (is_plain(&rest))
            return counts_without(s, x, y, out);
        rest = *y;
        rest.required = NULL;
        *known = is_plain(&rest);
        return *known ? names_without(s, x, y, out) : LM_OK;
    }
}

lm_status lm_shapes_without(lm_schema *s, const lm_place *at, const char *keyword, const lm_shapes *in,
                            lm_shapes *out)
{
    const lm_places *only = lm_places_add(s, NULL, *at);
    lm_shapes        held = { 0 };
    bool             any, known = true;

    *out = (lm_shapes){ 0 };
    if (!only)
        return lm_schema_memory(s);
    LM_TRY(s->spread(s, only, &held, &any));
    for (uint32_t i = 0; i < in->n; i++) {
        lm_shapes rest = { 0 };
        if (!lm_shapes_add(s, &rest, in->at[i]))
            return lm_schema_memory(s);
        for (uint32_t k = 0; k < held.n; k++) {
            lm_shapes next = { 0 };
            if (held.at[k]->type != in->at[i]->type)
                continue;
            for (uint32_t j = 0; j < rest.n; j++) {
                LM_TRY(without(s, rest.at[j], held.at[k], &next, &known));
                if (!known)
                    return lm_schema_refuse(s, at, keyword, "what a schema does not hold");
            }
            rest = next;
        }
        for (uint32_t j = 0; j < rest.n; j++)
            if (!lm_shapes_add(s, out, rest.at[j]))
                return lm_schema_memory(s);
    }
    return LM_OK;
}

/* ---- disjoint shapes ---- */

static lm_status apart(lm_schema *s, const lm_shape *a, const lm_shape *b, unsigned depth, bool *out);

static lm_status lists_apart(lm_schema *s, const lm_places *a, const lm_places *b, unsigned depth, bool *out)
{
    lm_shapes x = { 0 }, y = { 0 };
    bool      any;

    *out = true;
    if (!lm_terms_work(s->p, WORK_OF_SPREADING))
        return lm_terms_check(s->p, s->e);
    LM_TRY(s->spread(s, a, &x, &any));
    LM_TRY(s->spread(s, b, &y, &any));
    for (uint32_t i = 0; i < x.n && *out; i++)
        for (uint32_t k = 0; k < y.n && *out; k++)
            LM_TRY(apart(s, x.at[i], y.at[k], depth + 1, out));
    return LM_OK;
}

static bool bounds_apart(const lm_shape *a, const lm_shape *b)
{
    if (a->lo.there && b->hi.there &&
        (a->lo.x > b->hi.x || (a->lo.x == b->hi.x && (a->lo.open || b->hi.open))))
        return true;
    return b->lo.there && a->hi.there &&
           (b->lo.x > a->hi.x || (b->lo.x == a->hi.x && (b->lo.open || a->hi.open)));
}

static bool in_bounds(const lm_shape *x, double v)
{
    lm_shape point = { .lo = { true, false, v }, .hi = { true, false, v } };

    return !bounds_apart(x, &point) && !(x->integer && floor(v) != v);
}

/* Return the maximum number of comparisons that values_apart makes. */
static uint64_t n_comparisons(const lm_shape *a, const lm_shape *b)
{
    uint64_t x = 0, y = 0;

    for (const lm_values *v = a->values; v; v = v->next)
        x += json_array_size(v->list);
    for (const lm_values *v = b->values; v; v = v->next)
        y += json_array_size(v->list);
    return 1 + (x + 1) * (y + 1) / 4;
}

/* Return whether no value that one shape lists can belong to the other: by equality, and for numbers also by
 * bounds. */
static bool values_apart(const lm_shape *a, const lm_shape *b)
{
    for (const lm_values *x = a->values; x; x = x->next) {
        bool shared = false;
        for (size_t i = 0; i < json_array_size(x->list) && !shared; i++) {
            const json_t *v = json_array_get(x->list, i);
            bool in_all = !json_is_number(v) || a->type != LM_NUMBER || in_bounds(b, json_number_value(v));
            for (const lm_values *y = b->values; y && in_all; y = y->next) {
                bool here = false;
                for (size_t k = 0; k < json_array_size(y->list); k++) {
                    const json_t *w = json_array_get(y->list, k);
                    here |= json_is_number(v) && json_is_number(w)
                                ? json_number_value(v) == json_number_value(w)
                                : json_equal(v, w) || (json_typeof(v) == json_typeof(w) &&
                                                       (json_is_array(v) || json_is_object(v)));
                }
                in_all = here;
            }
            shared = in_all && (json_is_number(v) ? a->type == LM_NUMBER : true);
        }
        if (!shared)
            return true;
    }
    return false;
}

static lm_status objects_apart(lm_schema *s, const lm_shape *a, const lm_shape *b, unsigned depth, bool *out)
{
    const lm_shape *one[2] = { a, b };

    for (unsigned k = 0; k < 2; k++)
        for (const lm_names *n = one[k]->required; n && !*out; n = n->next) {
            const lm_places *x, *y;
            for (const lm_names *f = one[!k]->forbidden; f; f = f->next)
                *out |= strcmp(f->name, n->name) == 0;
            LM_TRY(lm_parts_member(s, a, n->name, &x));
            LM_TRY(lm_parts_member(s, b, n->name, &y));
            if (!*out && (x || y))
                LM_TRY(lists_apart(s, x, y, depth, out));
        }
    return LM_OK;
}

static lm_status arrays_apart(lm_schema *s, const lm_shape *a, const lm_shape *b, unsigned depth, bool *out)
{
    uint32_t both = a->min > b->min ? a->min : b->min;

    for (uint32_t i = 0; i < both && i < 16 && !*out; i++) {
        const lm_places *x, *y;
        LM_TRY(lm_parts_item(s, a, i, &x));
        LM_TRY(lm_parts_item(s, b, i, &y));
        LM_TRY(lists_apart(s, x, y, depth, out));
    }
    return LM_OK;
}

static lm_status apart(lm_schema *s, const lm_shape *a, const lm_shape *b, unsigned depth, bool *out)
{
    *out = a->type != b->type;
    if (*out)
        return LM_OK;
    if (!lm_terms_work(s->p, n_comparisons(a, b)))
        return lm_terms_check(s->p, s->e);
    *out = values_apart(a, b) || values_apart(b, a) || a->min > b->max || b->min > a->max;
    if (*out || depth > MAX_DEPTH)
        return LM_OK;
    switch (a->type) {
    case LM_NUMBER:
        *out = bounds_apart(a, b);
        return LM_OK;
    case LM_STRING:
        if (!is_plain(a) && !is_plain(b) && !a->narrowed && !b->narrowed)
            *out = lm_explore_empty(s->p,
                                    lm_and(s->p, lm_and(s->p, lm_json_language(s, a), lm_json_language(s, b)),
                                           lm_repeat(s->p, lm_any_character(s->p), 0, LM_UNBOUNDED)));
        return lm_terms_check(s->p, s->e);
    case LM_ARRAY:  return arrays_apart(s, a, b, depth, out);
    case LM_OBJECT: return objects_apart(s, a, b, depth, out);
    default:        return LM_OK;
    }
}

lm_status lm_shapes_apart(lm_schema *s, const lm_shapes *a, const lm_shapes *b, bool *out)
{
    *out = true;
    for (uint32_t i = 0; i < a->n && *out; i++)
        for (uint32_t k = 0; k < b->n && *out; k++)
            LM_TRY(apart(s, a->at[i], b->at[k], 0, out));
    return LM_OK;
}
