/* jinja_functions.c - jinja2's global functions, and the methods of values other than strings. */
#include "text/jinja/jinja.h"

#include <locale.h>
#include <string.h>

const jbuiltin *lm_jinja_find_in(const jbuiltin *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
            return table;
    return NULL;
}

/* ---- functions ---- */

static bool call_range(jinja *m, const jargs *a, jval *out)
{
    jrange *r = lm_jinja_new(m, 1, jrange);
    int64_t first, second = 0, step;

    if (!r || !lm_jarg_int(m, a, 0, 0, "range() argument", &first) ||
        !lm_jarg_int(m, a, 1, 0, "range() argument", &second) ||
        !lm_jarg_int(m, a, 2, 1, "range() argument", &step))
        return false;
    if (step == 0)
        return lm_jinja_fail(m, LM_FAILED, "range() arg 3 must not be zero");
    *r = (jrange){ .start = lm_jarg_given(a, 1) ? first : 0,
                   .stop = lm_jarg_given(a, 1) ? second : first,
                   .step = step };
    __int128 span = step > 0 ? (__int128)r->stop - r->start : (__int128)r->start - r->stop;
    __int128 stride = step > 0 ? (__int128)step : -(__int128)step;
    __int128 n = span <= 0 ? 0 : (span + stride - 1) / stride;
    if (n > J_MAX_RANGE)
        return lm_jinja_fail(m, LM_LIMIT, "range too big: the sandbox allows at most %d items", J_MAX_RANGE);
    r->n = (size_t)n;
    *out = (jval){ .type = J_RANGE, .r = r };
    return true;
}

/* Fill a dict from (mapping or pairs, **kw), the arguments of dict() and namespace(). */
static bool fill_dict(jinja *m, const jargs *a, jdict *d)
{
    jval from = a->v[0], item;
    jiter *it;

    if (from.type == J_DICT) {
        for (size_t i = 0; i < from.d->n; i++)
            if (!lm_jdict_set(m, d, from.d->pairs[i].key, from.d->pairs[i].value))
                return false;
    } else if (from.type == J_UNDEFINED) {
        return lm_jinja_undefined_error(m, from.u);
    } else if (from.type != J_MISSING) {
        if (!lm_jv_iter(m, from, &it))
            return false;
        for (;;) {
            jvec pair = { 0 };
            if (!lm_jiter_next(m, it, &item))
                return false;
            if (it->done)
                break;
            if (!lm_jv_collect(m, item, &pair))
                return false;
            if (pair.n != 2)
                return lm_jinja_fail(m, LM_FAILED,
                                     "dictionary update sequence element has length %zu; 2 is required",
                                     pair.n);
            if (!lm_jdict_set(m, d, pair.items[0], pair.items[1]))
                return false;
        }
    }
    for (size_t i = 0; i < a->rest.n_kw; i++)
        if (!lm_jdict_set(m, d, lm_jv_of_str(a->rest.kw[i].key), a->rest.kw[i].value))
            return false;
    return true;
}

static bool only_keywords(jinja *m, const jargs *a, const char *name)
{
    return !a->rest.n_pos || lm_jinja_fail(m, LM_FAILED, "%s expected at most 1 argument", name);
}

static bool call_dict(jinja *m, const jargs *a, jval *out)
{
    jdict *d = lm_jinja_new(m, 1, jdict);
    if (!d || !only_keywords(m, a, "dict") || !fill_dict(m, a, d))
        return false;
    *out = lm_jv_of_dict(d);
    return true;
}

static bool call_namespace(jinja *m, const jargs *a, jval *out)
{
    jspace *ns = lm_jinja_new(m, 1, jspace);

    if (!ns || !only_keywords(m, a, "namespace") || !fill_dict(m, a, &ns->d))
        return false;
    for (size_t i = 0; i < ns->d.n; i++) {
        jval key = ns->d.pairs[i].key;
        if (key.type == J_STR && key.s->n && key.s->data[0] == '_')
            return lm_jinja_fail(m, LM_FAILED,
                                 "a namespace cannot store underscore-prefixed attributes: '%.*s'",
                                 (int)key.s->n, key.s->data);
    }
    *out = (jval){ .type = J_NAMESPACE, .ns = ns };
    return true;
}

static bool call_raise(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    (void)out;
    return lm_jv_str(m, a->v[0], &s) &&
           lm_jinja_fail(m, LM_FAILED, "%.*s", (int)(s->n < 300 ? s->n : 300), s->data);
}

/* Apply Python's own directives: %f is microseconds, %z and %Z are empty without a time zone. The others are
 * the C library's. */
static bool call_strftime(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    jbuild format = { 0 }, text = { 0 };
    char microseconds[16], buffer[4096];

    if (!lm_jarg_str(m, a, 0, "strftime_now() argument", &s))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        char next = s->data[i] == '%' && i + 1 < s->n ? s->data[i + 1] : 0;
        if (next == 'f')
            lm_jb_add(m, &format, microseconds,
                      (size_t)snprintf(microseconds, sizeof microseconds, "%06ld", m->now_microseconds),
                      false);
        else if (next && next != 'z' && next != 'Z')
            lm_jb_add(m, &format, s->data + i, 2, false);
        else if (!next)
            lm_jb_add(m, &format, s->data + i, 1, false);
        i += next ? 1 : 0;
    }
    lm_jb_add(m, &format, "\1", 2, false);                   /* distinguishes an empty result from a
                                                                failure */
    if (m->status != LM_OK)
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = c ? strftime_l(buffer, sizeof buffer, format.data, &m->now, c) : 0;
#pragma GCC diagnostic pop
    if (c)
        freelocale(c);
    if (!n)
        return lm_jinja_fail(m, LM_FAILED, "strftime_now: a format that cannot be used");
    lm_jb_add(m, &text, buffer, n - 1, lm_jstr_is_content(s));
    return lm_jb_done(m, &text, false, out);
}

static bool call_joiner(jinja *m, const jargs *a, jval *out)
{
    jjoiner *j = lm_jinja_new(m, 1, jjoiner);
    if (!j)
        return false;
    if (!lm_jarg_given(a, 0))
        j->sep = lm_jstr_new(m, ", ", 2, false);
    else if (!lm_jv_str(m, a->v[0], &j->sep))
        return false;
    *out = (jval){ .type = J_JOINER, .joiner = j };
    return j->sep != NULL;
}

static bool unsupported(jinja *m, const jargs *a, jval *out)
{
    (void)a;
    (void)out;
    return lm_jinja_fail(m, LM_UNSUPPORTED, "the functions cycler and lipsum are not supported");
}

static const jbuiltin functions[] = {
    { "range", "start stop? step? /", call_range },
    { "dict", "mapping? / *", call_dict },
    { "namespace", "mapping? / *", call_namespace },
    { "raise_exception", "message", call_raise },
    { "strftime_now", "format", call_strftime },
    { "cycler", "*", unsupported },
    { "joiner", "sep?", call_joiner },
    { "lipsum", "*", unsupported },
    { NULL, NULL, NULL },
};

const jbuiltin *lm_jinja_find_function(const char *name, size_t n)
{
    return lm_jinja_find_in(functions, name, n);
}

/* ---- methods ---- */

static bool view(jinja *m, const jargs *a, jview_kind kind, jval *out)
{
    jview *v = lm_jinja_new(m, 1, jview);
    if (!v)
        return false;
    *v = (jview){ a->v[0].d, kind };
    *out = (jval){ .type = J_VIEW, .view = v };
    return true;
}

static bool dict_keys(jinja *m, const jargs *a, jval *out) { return view(m, a, J_KEYS, out); }
static bool dict_values(jinja *m, const jargs *a, jval *out) { return view(m, a, J_VALUES, out); }
static bool dict_items(jinja *m, const jargs *a, jval *out) { return view(m, a, J_ITEMS, out); }

static bool dict_get(jinja *m, const jargs *a, jval *out)
{
    bool found;
    *out = lm_jarg_given(a, 2) ? a->v[2] : lm_jv_none();
    return lm_jdict_get(m, a->v[0].d, a->v[1], out, &found);
}

static bool copy(jinja *m, const jargs *a, jval *out)
{
    (void)m;
    *out = a->v[0];                                          /* it is immutable */
    return true;
}

static bool list_count(jinja *m, const jargs *a, jval *out)
{
    int64_t n = 0;
    jvec items = { 0 };

    if (!lm_jv_collect(m, a->v[0], &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        bool equal;
        if (!lm_jv_equal(m, items.items[i], a->v[1], &equal))
            return false;
        n += equal;
    }
    *out = lm_jv_int(n);
    return true;
}

static bool list_index(jinja *m, const jargs *a, jval *out)
{
    int64_t from, to;
    jvec items = { 0 };

    if (!lm_jv_collect(m, a->v[0], &items) || !lm_jarg_int(m, a, 2, 0, "index", &from) ||
        !lm_jarg_int(m, a, 3, INT64_MAX, "index", &to))
        return false;
    int64_t n = (int64_t)items.n;
    from = from < 0 ? (from + n < 0 ? 0 : from + n) : from;
    to = to < 0 ? to + n : to > n ? n : to;
    for (int64_t i = from; i < to; i++) {
        bool equal;
        if (!lm_jv_equal(m, items.items[i], a->v[1], &equal))
            return false;
        if (equal) {
            *out = lm_jv_int(i);
            return true;
        }
    }
    return lm_jinja_fail(m, LM_FAILED, "the value is not in the list");
}

static bool loop_cycle(jinja *m, const jargs *a, jval *out)
{
    if (!a->rest.n_pos)
        return lm_jinja_fail(m, LM_FAILED, "no items for cycling given");
    *out = a->rest.pos[(size_t)a->v[0].loop->index0 % a->rest.n_pos];
    return true;
}

static bool loop_changed(jinja *m, const jargs *a, jval *out)
{
    jloop *loop = a->v[0].loop;
    jvec items = { .items = a->rest.pos, .n = a->rest.n_pos };
    jval now;
    bool equal = false;

    if (!lm_jvec_done(m, &items, J_TUPLE, &now))
        return false;
    if (loop->changed.type != J_MISSING && !lm_jv_equal(m, loop->changed, now, &equal))
        return false;
    loop->changed = now;
    *out = lm_jv_bool(!equal);
    return true;
}

static const jbuiltin dict_methods[] = {
    { "get", "self key default? /", dict_get },   { "items", "self /", dict_items },
    { "keys", "self /", dict_keys },              { "values", "self /", dict_values },
    { "copy", "self /", copy },                   { NULL, NULL, NULL },
};
static const jbuiltin list_methods[] = {
    { "count", "self value /", list_count }, { "index", "self value start? stop? /", list_index },
    { "copy", "self /", copy },              { NULL, NULL, NULL },
};
static const jbuiltin tuple_methods[] = {
    { "count", "self value /", list_count }, { "index", "self value start? stop? /", list_index }, { NULL, NULL, NULL },
};
static const jbuiltin loop_methods[] = {
    { "cycle", "self / *", loop_cycle }, { "changed", "self / *", loop_changed }, { NULL, NULL, NULL },
};

const jbuiltin *lm_jinja_find_method(jtype of, const char *name, size_t n)
{
    const jbuiltin *fn;

    switch (of) {
    case J_STR:
        fn = lm_jinja_find_in(lm_jinja_str_methods, name, n);
        return fn ? fn : lm_jinja_find_in(lm_jinja_str_search_methods, name, n);
    case J_DICT: return lm_jinja_find_in(dict_methods, name, n);
    case J_LIST: return lm_jinja_find_in(list_methods, name, n);
    case J_TUPLE: case J_RANGE: return lm_jinja_find_in(tuple_methods, name, n);
    case J_LOOP: return lm_jinja_find_in(loop_methods, name, n);
    default: return NULL;
    }
}
