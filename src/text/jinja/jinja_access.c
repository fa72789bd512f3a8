/* jinja_access.c - a.b, a[b], a[b:c:d], with jinja2's order of attributes and items and its sandbox. */
#include "text/jinja/jinja.h"

#include <string.h>

bool lm_jv_undefined(jinja *m, const char *hint, jval *out)
{
    jundef *u = lm_jinja_new(m, 1, jundef);
    if (!u)
        return false;
    *u = (jundef){ .hint = hint };
    *out = (jval){ .type = J_UNDEFINED, .u = u };
    return true;
}

bool lm_jv_undefined_name(jinja *m, const jstr *name, jtype of, bool unsafe, jval *out)
{
    jundef *u = lm_jinja_new(m, 1, jundef);
    if (!u)
        return false;
    *u = (jundef){ .name = name, .of = of, .unsafe = unsafe };
    *out = (jval){ .type = J_UNDEFINED, .u = u };
    return true;
}

/* Return whether the sandbox forbids a method because it would change its list or dict. */
static bool is_mutator(jtype type, const jstr *name)
{
    static const char *const of_list[] = { "append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL };
    static const char *const of_dict[] = { "clear", "pop", "popitem", "setdefault", "update", NULL };
    const char *const *names = type == J_LIST ? of_list : type == J_DICT ? of_dict : NULL;

    for (; names && *names; names++)
        if (lm_jstr_is(name, *names))
            return true;
    return false;
}

static bool bind(jinja *m, const jbuiltin *fn, jval self, jval *out)
{
    jmethod *method = lm_jinja_new(m, 1, jmethod);
    if (!method)
        return false;
    *method = (jmethod){ fn, self };
    *out = (jval){ .type = J_METHOD, .method = method };
    return true;
}

bool lm_jloop_length(jinja *m, jloop *loop)
{
    jvec rest = { 0 };
    jval v;

    if (loop->length >= 0)
        return true;
    if (lm_jv_has_length(loop->of)) {
        size_t n;
        if (!lm_jv_length(m, loop->of, &n))
            return false;
        loop->length = (int64_t)n;
        return true;
    }
    if (!lm_jv_collect(m, lm_jv_of_iter(loop->it), &rest) || !lm_jvec_done(m, &rest, J_LIST, &v) ||
        !lm_jv_iter(m, v, &loop->it))
        return false;
    loop->length = (int64_t)rest.n + loop->index0 + 1 + (loop->after.type != J_MISSING);
    return true;
}

static bool loop_peek(jinja *m, jloop *loop)
{
    jval v = { 0 };
    if (loop->after.type != J_MISSING)
        return true;
    if (!lm_jiter_next(m, loop->it, &v))
        return false;
    if (!loop->it->done)
        loop->after = v;
    return true;
}

/* Return `value` if there is one, otherwise an undefined value that gives the reason. */
static bool loop_neighbour(jinja *m, jval value, const char *hint, jval *out)
{
    *out = value;
    return value.type != J_MISSING || lm_jv_undefined(m, hint, out);
}

static bool loop_attr(jinja *m, jloop *loop, const jstr *name, jval *out)
{
    if (lm_jstr_is(name, "index0"))
        *out = lm_jv_int(loop->index0);
    else if (lm_jstr_is(name, "index"))
        *out = lm_jv_int(loop->index0 + 1);
    else if (lm_jstr_is(name, "first"))
        *out = lm_jv_bool(loop->index0 == 0);
    else if (lm_jstr_is(name, "depth0"))
        *out = lm_jv_int(loop->depth0);
    else if (lm_jstr_is(name, "depth"))
        *out = lm_jv_int(loop->depth0 + 1);
    else if (lm_jstr_is(name, "last")) {
        if (!loop_peek(m, loop))
            return false;
        *out = lm_jv_bool(loop->after.type == J_MISSING);
    } else if (lm_jstr_is(name, "nextitem"))
        return loop_peek(m, loop) && loop_neighbour(m, loop->after, "there is no next item", out);
    else if (lm_jstr_is(name, "previtem"))
        return loop_neighbour(m, loop->before, "there is no previous item", out);
    else if (lm_jstr_is(name, "length") || lm_jstr_is(name, "revindex") || lm_jstr_is(name, "revindex0")) {
        if (!lm_jloop_length(m, loop))
            return false;
        *out = lm_jv_int(name->n == 6 ? loop->length : loop->length - loop->index0 - (name->n == 9 ? 1 : 0));
    }
    return true;
}

static bool macro_attr(jinja *m, const jmacro *macro, const jstr *name, jval *out)
{
    const jmacro_def *d = macro->def;

    if (lm_jstr_is(name, "name")) {
        *out = d->name ? lm_jv_of_str(d->name) : lm_jv_none();
    } else if (lm_jstr_is(name, "catch_kwargs")) {
        *out = lm_jv_bool(d->uses_kwargs);
    } else if (lm_jstr_is(name, "catch_varargs")) {
        *out = lm_jv_bool(d->uses_varargs);
    } else if (lm_jstr_is(name, "caller")) {
        *out = lm_jv_bool(d->uses_caller);
    } else if (lm_jstr_is(name, "arguments")) {
        jvec v = { 0 };
        for (size_t i = 0; i < d->n_params; i++)
            if (!lm_jvec_add(m, &v, lm_jv_of_str(d->param_names[i])))
                return false;
        return lm_jvec_done(m, &v, J_TUPLE, out);
    }
    return true;
}

typedef struct named_value { const char *name; jval value; } named_value;

/* Find the value with this name among `n`; *out stays J_MISSING if there is none. */
static bool pick(const jstr *name, const named_value *values, size_t n, jval *out)
{
    for (size_t i = 0; i < n; i++)
        if (lm_jstr_is(name, values[i].name))
            *out = values[i].value;
    return true;
}

#define PICK(...) pick(name, (const named_value[]){ __VA_ARGS__ }, \
                       sizeof((const named_value[]){ __VA_ARGS__ }) / sizeof(named_value), out)

/* Look up a field of a value that has fields. */
static bool field(jinja *m, jval v, const jstr *name, jval *out)
{
    switch (v.type) {
    case J_LOOP:
        return loop_attr(m, v.loop, name, out);
    case J_MACRO:
        return macro_attr(m, v.macro, name, out);
    case J_NAMESPACE:
        if (lm_jinja_spend(m, v.ns->d.n / 32))
            lm_jdict_find(&v.ns->d, name->data, name->n, out);
        return m->status == LM_OK;
    case J_JOINER:
        return PICK({ "sep", lm_jv_of_str(v.joiner->sep) }, { "used", lm_jv_bool(v.joiner->used) });
    case J_RANGE:
        return PICK({ "start", lm_jv_int(v.r->start) }, { "stop", lm_jv_int(v.r->stop) },
                    { "step", lm_jv_int(v.r->step) });
    case J_TUPLE:
        return !v.l->group || PICK({ "grouper", v.l->items[0] }, { "list", v.l->items[1] });
    default:
        return true;
    }
}

#undef PICK

bool lm_jinja_python_attr(jinja *m, jval v, const jstr *name, jval *out)
{
    jval key;

    *out = (jval){ .type = J_MISSING };
    if (!field(m, v, name, out) || out->type != J_MISSING || v.type == J_NAMESPACE)
        return m->status == LM_OK;
    if (name->n > 4 && memcmp(name->data, "__", 2) == 0 && memcmp(name->data + name->n - 2, "__", 2) == 0 &&
        !(v.type == J_DICT && lm_jdict_find(v.d, name->data, name->n, &key)))
        return lm_jv_undefined_name(m, name, v.type, true, out);
    if (is_mutator(v.type, name))
        return lm_jv_undefined_name(m, name, v.type, true, out);
    const jbuiltin *fn = lm_jinja_find_method(v.type, name->data, name->n);
    return !fn || bind(m, fn, v, out);
}

/* Return list[i] and the like; J_MISSING where Python raises LookupError or TypeError. */
static bool item(jinja *m, jval v, jval key, jval *out)
{
    bool found = false;
    size_t n;

    *out = (jval){ .type = J_MISSING };
    if (v.type == J_DICT)
        return !lm_jv_hashable(m, key) ? m->status == LM_OK : lm_jdict_get(m, v.d, key, out, &found);
    if (!lm_jv_is_int(key) || (v.type != J_LIST && v.type != J_TUPLE && v.type != J_STR && v.type != J_RANGE))
        return true;
    if (!lm_jv_length(m, v, &n))
        return false;
    int64_t i = lm_jv_int_of(key);
    i += i < 0 ? (int64_t)n : 0;
    if (i < 0 || (size_t)i >= n)
        return true;
    if (v.type == J_RANGE) {
        *out = lm_jv_int(v.r->start + i * v.r->step);
    } else if (v.type == J_STR) {
        size_t from = lm_jstr_offset(v.s, (size_t)i), length;
        lm_cp_at(v.s->data, from, &length);
        const jstr *s = lm_jstr_slice(m, v.s, from, from + length);
        *out = lm_jv_of_str(s);
        return s != NULL;
    } else {
        *out = v.l->items[i];
    }
    return true;
}

bool lm_jinja_attr(jinja *m, jval v, const jstr *name, jval *out)
{
    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    if (!lm_jinja_python_attr(m, v, name, out))
        return false;
    if (out->type == J_MISSING && !item(m, v, lm_jv_of_str(name), out))
        return false;
    return out->type != J_MISSING || lm_jv_undefined_name(m, name, v.type, false, out);
}

bool lm_jinja_item(jinja *m, jval v, jval key, jval *out)
{
    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    if (!item(m, v, key, out))
        return false;
    if (out->type == J_MISSING && key.type == J_STR && !lm_jinja_python_attr(m, v, key.s, out))
        return false;
    if (out->type != J_MISSING)
        return true;
    const jstr *name;
    return (key.type == J_STR ? (name = key.s, true) : lm_jv_repr(m, key, &name)) &&
           lm_jv_undefined_name(m, name, v.type, false, out);
}

/* Read one bound of a slice, as PySlice_AdjustIndices does. */
static bool bound(jinja *m, jval v, int64_t otherwise, int64_t low, int64_t high, int64_t n, int64_t *out)
{
    if (v.type == J_MISSING || v.type == J_NONE) {
        *out = otherwise;
        return true;
    }
    if (!lm_jv_is_int(v))
        return lm_jinja_type_error(m, "slice indices must be integers or None, not", v);
    int64_t i = lm_jv_int_of(v);
    if (i < 0)
        i = i < -n ? low : i + n;
    *out = i < low ? low : i > high ? high : i;
    return true;
}

typedef struct slice { int64_t start, stop, step, size; } slice;

static bool read_slice(jinja *m, jval v, const jval part[3], slice *s)
{
    size_t n;

    s->step = 1;
    if (part[2].type != J_MISSING && part[2].type != J_NONE) {
        if (!lm_jv_is_int(part[2]))
            return lm_jinja_type_error(m, "slice indices must be integers or None, not", part[2]);
        s->step = lm_jv_int_of(part[2]);
    }
    if (!lm_jv_length(m, v, &n))
        return false;
    if (s->step == 0)
        return lm_jinja_fail(m, LM_FAILED, "slice step cannot be zero");
    s->size = (int64_t)n;
    int64_t low = s->step < 0 ? -1 : 0, high = s->step < 0 ? s->size - 1 : s->size;
    return bound(m, part[0], s->step < 0 ? high : low, low, high, s->size, &s->start) &&
           bound(m, part[1], s->step < 0 ? low : high, low, high, s->size, &s->stop);
}

static bool slice_range(jinja *m, const jrange *r, const slice *s, jval *out)
{
    jrange *part = lm_jinja_new(m, 1, jrange);
    int64_t span = s->step > 0 ? s->stop - s->start : s->start - s->stop,
            stride = s->step > 0 ? s->step : -s->step;

    if (!part)
        return false;
    *part = (jrange){ r->start + s->start * r->step, r->start + s->stop * r->step, r->step * s->step, 0 };
    part->n = span <= 0 ? 0 : (size_t)((span + stride - 1) / stride);
    *out = (jval){ .type = J_RANGE, .r = part };
    return true;
}

/* A slice without gaps shares the text or the items, which never change. */
static bool slice_whole(jinja *m, jval v, const slice *s, jval *out)
{
    if (v.type == J_STR) {
        size_t from = lm_jstr_offset(v.s, (size_t)s->start),
               to = lm_jstr_offset(v.s, (size_t)(s->stop < s->start ? s->start : s->stop));
        const jstr *part = lm_jinja_spend(m, v.s->n / 256) ? lm_jstr_slice(m, v.s, from, to) : NULL;
        *out = lm_jv_of_str(part);
        return part != NULL;
    }
    jlist *l = lm_jinja_new(m, 1, jlist);
    if (!l)
        return false;
    *l = (jlist){ .items = v.l->items + s->start,
                  .n = (size_t)(s->stop > s->start ? s->stop - s->start : 0) };
    *out = (jval){ .type = v.type, .l = l };
    return true;
}

static bool slice_items(jinja *m, jval v, const slice *s, jval *out)
{
    jbuild text = { 0 };
    jvec list = { 0 };
    jval items = v;

    if (v.type == J_STR) {
        jvec all = { 0 };
        if (!lm_jv_collect(m, v, &all) || !lm_jvec_done(m, &all, J_LIST, &items))
            return false;
    }
    for (int64_t i = s->start; s->step > 0 ? i < s->stop : i > s->stop; i += s->step) {
        jval element;
        if (!item(m, items, lm_jv_int(i), &element))
            return false;
        if (v.type == J_STR)
            lm_jb_str(m, &text, element.s);
        else if (!lm_jvec_add(m, &list, element))
            return false;
    }
    if (v.type == J_STR)
        return lm_jb_done(m, &text, v.s->safe, out);
    return lm_jvec_done(m, &list, v.type, out);
}

bool lm_jinja_slice(jinja *m, jval v, const jval part[3], jval *out)
{
    slice s;

    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    if (v.type != J_STR && v.type != J_LIST && v.type != J_TUPLE && v.type != J_RANGE)
        return lm_jinja_fail(m, LM_FAILED, "'%s' object cannot be sliced", lm_jv_type_name(v));
    if (!read_slice(m, v, part, &s))
        return false;
    if (s.step == 1 && v.type != J_RANGE)
        return slice_whole(m, v, &s, out);
    if (s.step < -s.size || s.step > s.size)
        s.step = s.step < 0 ? -s.size - 1 : s.size + 1;
    return v.type == J_RANGE ? slice_range(m, v.r, &s, out) : slice_items(m, v, &s, out);
}
