/* jinja_filters_list.c - filters on sequences, evaluated at once. */
#include "text/jinja/jinja_getter.h"

static bool filter_sum(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 };
    jgetter g;

    if (!lm_jgetter_make(m, a->v[1], false, lm_jv_missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    *out = lm_jarg_given(a, 2) ? a->v[2] : lm_jv_int(0);
    if (out->type == J_STR)
        return lm_jinja_fail(m, LM_FAILED, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.n; i++) {
        jval v;
        if (!lm_jgetter_get(m, &g, items.items[i], &v) || !lm_jinja_arith(m, OP_ADD, *out, v, out))
            return false;
    }
    return true;
}

static bool filter_join(jinja *m, const jargs *a, jval *out)
{
    const jstr *separator = NULL;
    jvec items = { 0 };
    jbuild b = { 0 };
    jgetter g;

    if (lm_jarg_given(a, 1) && !lm_jv_str(m, a->v[1], &separator))
        return false;
    if (!lm_jgetter_make(m, a->v[2], false, lm_jv_missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    /* str(d).join(…): the result is a plain string even if the separator is Markup */
    bool safe = separator && separator->safe && a->v[1].type != J_STR;
    for (size_t i = 0; i < items.n; i++) {
        jval v;
        if (!lm_jgetter_get(m, &g, items.items[i], &v))
            return false;
        if (i && separator)
            lm_jb_str(m, &b, separator);
        lm_jb_value(m, &b, v);
    }
    return lm_jb_done(m, &b, safe, out);
}

static bool filter_list(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 };
    return lm_jv_collect(m, a->v[0], &items) && lm_jvec_done(m, &items, J_LIST, out);
}

static bool filter_first(jinja *m, const jargs *a, jval *out)
{
    jiter *it;
    if (!lm_jv_iter(m, a->v[0], &it) || !lm_jiter_next(m, it, out))
        return false;
    return !it->done || lm_jv_undefined(m, "no first item, sequence was empty", out);
}

static bool filter_last(jinja *m, const jargs *a, jval *out)
{
    jiter *it;
    jval back;
    bool possible;

    if (!lm_jv_reversed(m, a->v[0], &possible, &back))
        return false;
    if (!possible)
        return lm_jinja_fail(m, LM_FAILED, "'%s' object is not reversible", lm_jv_type_name(a->v[0]));
    if (!lm_jv_iter(m, back, &it) || !lm_jiter_next(m, it, out))
        return false;
    return !it->done || lm_jv_undefined(m, "no last item, sequence was empty", out);
}

static bool filter_reverse(jinja *m, const jargs *a, jval *out)
{
    jval v = a->v[0], step[3] = { lm_jv_missing(), lm_jv_missing(), lm_jv_int(-1) };
    bool possible;
    jvec items = { 0 };

    if (v.type == J_STR)
        return lm_jinja_slice(m, v, step, out);
    if (!lm_jv_reversed(m, v, &possible, out))
        return false;
    if (possible)
        return true;
    return lm_jv_collect(m, v, &items) && lm_jvec_done(m, &items, J_LIST, &v) &&
           lm_jinja_slice(m, v, step, out);
}

const jbuiltin lm_jinja_list_filters[] = {
    { "sum", "iterable attribute? start?", filter_sum },
    { "join", "value d? attribute?", filter_join },
    { "list", "value", filter_list },
    { "first", "seq", filter_first },
    { "last", "seq", filter_last },
    { "reverse", "value", filter_reverse },
    { NULL, NULL, NULL },
};

const jbuiltin *lm_jinja_find_filter(const char *name, size_t n)
{
    const jbuiltin *fn = lm_jinja_find_in(lm_jinja_text_filters, name, n);
    fn = fn ? fn : lm_jinja_find_in(lm_jinja_list_filters, name, n);
    fn = fn ? fn : lm_jinja_find_in(lm_jinja_lazy_filters, name, n);
    fn = fn ? fn : lm_jinja_find_in(lm_jinja_order_filters, name, n);
    return fn ? fn : lm_jinja_find_in(lm_jinja_number_filters, name, n);
}
