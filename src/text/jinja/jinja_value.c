/* jinja_value.c - truth, equality, order and membership of values. */
#include "text/jinja/jinja.h"

#include <math.h>

const char *lm_jv_type_name(jval v)
{
    switch (v.type) {
    case J_MISSING: case J_UNDEFINED: return "Undefined";
    case J_NONE: return "NoneType";
    case J_BOOL: return "bool";
    case J_INT: case J_BIG: return "int";
    case J_FLOAT: return "float";
    case J_STR: return v.s->safe ? "Markup" : "str";
    case J_LIST: return "list";
    case J_TUPLE: return "tuple";
    case J_DICT: return "dict";
    case J_RANGE: return "range";
    case J_VIEW:
        return v.view->kind == J_KEYS ? "dict_keys" : v.view->kind == J_VALUES ? "dict_values" : "dict_items";
    case J_ITER: return "generator";
    case J_NAMESPACE: return "TemplateNamespace";
    case J_LOOP: return "LoopContext";
    case J_MACRO: return "Macro";
    case J_FUNCTION: return "function";
    case J_METHOD: return "builtin_function_or_method";
    case J_JOINER: return "Joiner";
    }
    return "object";
}

bool lm_jinja_type_error(jinja *m, const char *what, jval v)
{
    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    return lm_jinja_fail(m, LM_FAILED, "%s: '%s'", what, lm_jv_type_name(v));
}

bool lm_jv_truth(jval v)
{
    switch (v.type) {
    case J_MISSING: case J_UNDEFINED: case J_NONE: return false;
    case J_BOOL: return v.b;
    case J_INT: return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STR: return v.s->n != 0;
    case J_LIST: case J_TUPLE: return v.l->n != 0;
    case J_DICT: return v.d->n != 0;
    case J_RANGE: return v.r->n != 0;
    case J_VIEW: return v.view->d->n != 0;
    default: return true;
    }
}

bool lm_jv_same(jval a, jval b)
{
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case J_MISSING: case J_NONE: return true;
    case J_BOOL: return a.b == b.b;
    case J_INT: return a.i == b.i;
    case J_FLOAT: return a.f == b.f;
    case J_STR:                                     /* CPython has only one string of each single character */
        return a.s->n == b.s->n &&
               (a.s->data == b.s->data || a.s->n == 0 || (a.s->n == 1 && a.s->data[0] == b.s->data[0]));
    default: return a.p == b.p;
    }
}

static long double as_real(jval v)
{
    return v.type == J_FLOAT ? (long double)v.f : (long double)lm_jv_int_of(v);
}

/* Compare two values. Containers nested deeper than J_MAX_DATA are an error. */
static bool equal(jinja *m, jval a, jval b, unsigned depth, bool *out);

static bool equal_lists(jinja *m, const jlist *a, const jlist *b, unsigned depth, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!equal(m, a->items[i], b->items[i], depth, out))
            return false;
    return true;
}

static bool equal_dicts(jinja *m, const jdict *a, const jdict *b, unsigned depth, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        jval other = { 0 };
        bool found;
        if (!lm_jdict_get(m, b, a->pairs[i].key, &other, &found))
            return false;
        *out = found;
        if (found && !equal(m, a->pairs[i].value, other, depth, out))
            return false;
    }
    return true;
}

static bool equal(jinja *m, jval a, jval b, unsigned depth, bool *out)
{
    if (depth > J_MAX_DATA)
        return lm_jinja_fail(m, LM_LIMIT, "values nested deeper than %d", J_MAX_DATA);
    if (!lm_jinja_spend(m, 1))
        return false;
    *out = false;
    if (lm_jv_is_number(a) && lm_jv_is_number(b)) {
        *out = as_real(a) == as_real(b);
        return true;
    }
    if (a.type != b.type)
        return true;
    switch (a.type) {
    case J_UNDEFINED: case J_NONE:
        *out = true;
        return true;
    case J_STR: case J_BIG:
        *out = lm_jstr_equal(a.s, b.s);
        return lm_jinja_spend(m, a.s->n == b.s->n ? a.s->n / 256 : 0);
    case J_LIST: case J_TUPLE:
        return equal_lists(m, a.l, b.l, depth + 1, out);
    case J_DICT:
        return equal_dicts(m, a.d, b.d, depth + 1, out);
    case J_VIEW:
        if (a.view->kind == b.view->kind && a.view->kind != J_VALUES)
            return equal_dicts(m, a.view->d, b.view->d, depth + 1, out);
        *out = a.p == b.p;
        return true;
    case J_RANGE:
        *out = a.r->n == b.r->n &&
               (!a.r->n || (a.r->start == b.r->start && (a.r->n == 1 || a.r->step == b.r->step)));
        return true;
    default:
        *out = a.p == b.p;
        return true;
    }
}

bool lm_jv_equal(jinja *m, jval a, jval b, bool *out) { return equal(m, a, b, 0, out); }

static bool less(jinja *m, jval a, jval b, const char *op, unsigned depth, int *order);

/* Compare two numbers, one of them beyond 64 bits: by sign, then by the number of digits, then by digits. A
 * float is compared by its value. Returns -1, 0 or 1; 2 or -2: unordered (NaN). */
static int order_of_big(jval a, jval b)
{
    bool minus = a.type == J_BIG && *a.s->data == '-';
    int order;

    if (a.type != J_BIG)
        return -order_of_big(b, a);
    if (b.type == J_FLOAT) {
        double x = 0;
        lm_float_read(a.s->data, a.s->n, &x);
        return isnan(b.f) ? 2 : x < b.f ? -1 : x > b.f;
    }
    if (b.type != J_BIG || minus != (*b.s->data == '-'))
        return minus ? -1 : 1;
    order = a.s->n != b.s->n ? (a.s->n < b.s->n ? -1 : 1) : lm_jstr_compare(a.s, b.s);
    return minus ? -order : order;
}

/* Compare lists by their first items that differ. */
static bool less_lists(jinja *m, const jlist *a, const jlist *b, const char *op, unsigned depth, int *order)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        if (!lm_jv_equal(m, a->items[i], b->items[i], &same))
            return false;
        if (!same)
            return less(m, a->items[i], b->items[i], op, depth + 1, order);
    }
    *order = a->n == b->n ? 0 : a->n < b->n ? -1 : 1;
    return true;
}

static bool less(jinja *m, jval a, jval b, const char *op, unsigned depth, int *order)
{
    if (a.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, a.u);
    if (b.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, b.u);
    if (depth > J_MAX_DATA || !lm_jinja_spend(m, 1))
        return lm_jinja_fail(m, LM_LIMIT, "values nested deeper than %d", J_MAX_DATA);
    if (lm_jv_is_number(a) && lm_jv_is_number(b)) {
        long double x = as_real(a), y = as_real(b);
        *order = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
        return true;
    }
    if (lm_jv_any_big(a, b)) {
        *order = order_of_big(a, b);
        *order = *order == -2 ? 2 : *order;
        return true;
    }
    if (a.type == J_STR && b.type == J_STR) {
        *order = lm_jstr_compare(a.s, b.s);
        return true;
    }
    if (a.type == b.type && (a.type == J_LIST || a.type == J_TUPLE))
        return less_lists(m, a.l, b.l, op, depth, order);
    return lm_jinja_fail(m, LM_FAILED, "'%s' not supported between instances of '%s' and '%s'", op,
                         lm_jv_type_name(a), lm_jv_type_name(b));
}

bool lm_jv_less(jinja *m, jval a, jval b, const char *op, int *order) { return less(m, a, b, op, 0, order); }

static bool range_contains(const jrange *r, int64_t x)
{
    bool inside = r->step > 0 ? x >= r->start && x < r->stop : x <= r->start && x > r->stop;

    return r->n && inside && (x - r->start) % r->step == 0;
}

bool lm_jv_contains(jinja *m, jval container, jval item, bool *out)
{
    jiter *it;
    jval v;

    *out = false;
    if (container.type == J_STR) {
        if (item.type != J_STR)
            return lm_jinja_fail(m, LM_FAILED, "'in <string>' requires string as left operand, not %s",
                                 lm_jv_type_name(item));
        *out = lm_jstr_find(container.s, item.s, 0, container.s->n) != SIZE_MAX;
        return lm_jinja_spend(m, container.s->n / 256);
    }
    if (container.type == J_DICT)
        return lm_jdict_get(m, container.d, item, &v, out);
    if (container.type == J_VIEW && container.view->kind == J_KEYS)
        return lm_jdict_get(m, container.view->d, item, &v, out);
    if (container.type == J_RANGE && item.type == J_INT) {
        *out = range_contains(container.r, item.i);
        return true;
    }
    if (!lm_jv_iterable(container))
        return lm_jinja_fail(m, LM_FAILED, "argument of type '%s' is not iterable",
                             lm_jv_type_name(container));
    if (!lm_jv_iter(m, container, &it))
        return false;
    for (;;) {
        if (!lm_jiter_next(m, it, &v))
            return false;
        if (it->done)
            return true;
        if (lm_jv_same(v, item))
            *out = true;
        else if (!lm_jv_equal(m, v, item, out))
            return false;
        if (*out)
            return true;
    }
}

bool lm_jv_has_length(jval v)
{
    switch (v.type) {
    case J_UNDEFINED:
    case J_STR:
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_RANGE:
    case J_VIEW:
    case J_LOOP: return true;
    default:
        return false;
    }
}

bool lm_jv_length(jinja *m, jval v, size_t *out)
{
    switch (v.type) {
    case J_UNDEFINED: *out = 0; return true;
    case J_STR: *out = lm_jstr_length(v.s); return lm_jinja_spend(m, v.s->n / 256);
    case J_LIST: case J_TUPLE: *out = v.l->n; return true;
    case J_DICT: *out = v.d->n; return true;
    case J_RANGE: *out = v.r->n; return true;
    case J_VIEW: *out = v.view->d->n; return true;
    default:
        return lm_jinja_fail(m, LM_FAILED, "object of type '%s' has no len()", lm_jv_type_name(v));
    }
}
