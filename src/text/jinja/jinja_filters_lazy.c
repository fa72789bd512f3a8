/* jinja_filters_lazy.c - filters that are generators in jinja2: lazy, and read once. */
#include "text/jinja/jinja_getter.h"

bool lm_jgetter_make(jinja *m, jval attribute, bool lower, jval otherwise, jgetter *g)
{
    jvec parts = { 0 };

    *g = (jgetter){ .otherwise = otherwise.type == J_NONE ? (jval){ .type = J_MISSING } : otherwise,
                    .lower = lower };
    if (attribute.type == J_MISSING || attribute.type == J_NONE)
        return true;
    if (attribute.type == J_STR) {
        const jstr *s = attribute.s;
        for (size_t from = 0; from <= s->n;) {
            size_t end = from;
            int64_t index;
            bool overflow, digits = true;
            for (; end < s->n && s->data[end] != '.'; end++)
                digits = digits && s->data[end] >= '0' && s->data[end] <= '9';
            const jstr *part = lm_jstr_slice(m, s, from, end);
            jval v = lm_jv_of_str(part);
            if (!part)
                return false;
            if (digits && end > from && lm_int_read(part->data, part->n, 10, &index, &overflow))
                v = lm_jv_int(index);
            if (!lm_jvec_add(m, &parts, v))
                return false;
            from = end + 1;
        }
    } else if (!lm_jvec_add(m, &parts, attribute)) {
        return false;
    }
    g->parts = parts.items;
    g->n = parts.n;
    return true;
}

bool lm_jgetter_get(jinja *m, const jgetter *g, jval item, jval *out)
{
    for (size_t i = 0; i < g->n; i++) {
        if (!lm_jinja_item(m, item, g->parts[i], &item))
            return false;
        if (item.type == J_UNDEFINED && g->otherwise.type != J_MISSING)
            item = g->otherwise;
    }
    if (g->lower && item.type == J_STR) {
        const jstr *s;
        if (!lm_jstr_case(m, item.s, J_LOWER, &s))
            return false;
        item = lm_jv_of_str(s);
    }
    *out = item;
    return true;
}

/* ---- map, select, reject ---- */

typedef struct lazy {
    jval  value;                         /* what is iterated over, once an item is requested */
    bool  started, attribute, reject;
    const jbuiltin *fn;
    jgetter get;
    jcall args;
} lazy;

static bool start(jinja *m, jiter *it, lazy *l)
{
    l->started = true;
    if (!lm_jv_truth(l->value)) {
        it->done = true;
        return true;
    }
    return lm_jv_iter(m, l->value, &it->inner);
}

static bool next_inner(jinja *m, jiter *it, jval *out)
{
    if (!lm_jiter_next(m, it->inner, out))
        return false;
    it->done = it->inner->done;
    return true;
}

static bool unknown(jinja *m, const char *what, jval name)
{
    const jstr *s;
    return lm_jv_repr(m, name, &s) &&
           lm_jinja_fail(m, LM_FAILED, "no %s named %.*s", what, (int)(s->n < 64 ? s->n : 64), s->data);
}

static bool prepare_map(jinja *m, lazy *l)
{
    jval attribute = lm_jv_missing(), otherwise = lm_jv_missing();

    for (size_t i = 0; i < l->args.n_kw && !l->args.n_pos; i++) {
        if (lm_jstr_is(l->args.kw[i].key, "attribute"))
            attribute = l->args.kw[i].value;
        else if (lm_jstr_is(l->args.kw[i].key, "default"))
            otherwise = l->args.kw[i].value;
    }
    if (attribute.type != J_MISSING) {
        if (l->args.n_kw > 1u + (otherwise.type != J_MISSING))
            return lm_jinja_fail(m, LM_FAILED, "map: unexpected keyword argument");
        l->attribute = true;
        return lm_jgetter_make(m, attribute, false, otherwise, &l->get);
    }
    if (!l->args.n_pos)
        return lm_jinja_fail(m, LM_FAILED, "map requires a filter argument");
    jval name = l->args.pos[0];
    l->fn = name.type == J_STR ? lm_jinja_find_filter(name.s->data, name.s->n) : NULL;
    l->args.pos++;
    l->args.n_pos--;
    return l->fn || unknown(m, "filter", name);
}

static bool next_mapped(jinja *m, jiter *it, jval *out)
{
    lazy *l = it->state;
    jval item;

    if (!l->started && (!start(m, it, l) || (!it->done && !prepare_map(m, l))))
        return false;
    if (it->done)
        return true;
    if (!next_inner(m, it, &item))
        return false;
    if (it->done)
        return true;
    return l->attribute ? lm_jgetter_get(m, &l->get, item, out)
                        : lm_jinja_call_builtin(m, l->fn, &item, &l->args, out);
}

static bool prepare_select(jinja *m, lazy *l)
{
    if (l->attribute) {
        if (!l->args.n_pos)
            return lm_jinja_fail(m, LM_FAILED, "missing parameter for attribute name");
        if (!lm_jgetter_make(m, l->args.pos[0], false, lm_jv_missing(), &l->get))
            return false;
        l->args.pos++;
        l->args.n_pos--;
    }
    if (!l->args.n_pos)
        return true;
    jval name = l->args.pos[0];
    l->fn = name.type == J_STR ? lm_jinja_find_test(name.s->data, name.s->n) : NULL;
    l->args.pos++;
    l->args.n_pos--;
    return l->fn || unknown(m, "test", name);
}

static bool next_selected(jinja *m, jiter *it, jval *out)
{
    lazy *l = it->state;
    jval key, keep;

    if (!l->started && (!start(m, it, l) || (!it->done && !prepare_select(m, l))))
        return false;
    while (!it->done) {
        if (!next_inner(m, it, out))
            return false;
        if (it->done)
            break;
        key = *out;
        if (l->attribute && !lm_jgetter_get(m, &l->get, *out, &key))
            return false;
        keep = key;
        if (l->fn && !lm_jinja_call_builtin(m, l->fn, &key, &l->args, &keep))
            return false;
        if (lm_jv_truth(keep) != l->reject)
            return true;
    }
    return true;
}

static bool lazily(jinja *m, const jargs *a, jnext next, const char *name, bool attribute, bool reject,
                   jval *out)
{
    jiter *it = lm_jiter_new(m, next, name);
    lazy *l = lm_jinja_new(m, 1, lazy);

    if (!it || !l)
        return false;
    *l = (lazy){ .value = a->v[0], .args = a->rest, .attribute = attribute, .reject = reject };
    it->state = l;
    *out = lm_jv_of_iter(it);
    return true;
}

static bool filter_map(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_mapped, "sync_do_map", false, false, out);
}
static bool filter_select(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_select", false, false, out);
}
static bool filter_reject(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_reject", false, true, out);
}
static bool filter_selectattr(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_selectattr", true, false, out);
}
static bool filter_rejectattr(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_rejectattr", true, true, out);
}

/* ---- generators that are evaluated completely at the first request ---- */

typedef struct deferred {
    bool (*work)(jinja *m, const jargs *a, jvec *out);
    jargs args;
} deferred;

static bool next_deferred(jinja *m, jiter *it, jval *out)
{
    deferred *d = it->state;
    jvec items = { 0 };
    jval list;

    if (!it->inner && (!d->work(m, &d->args, &items) || !lm_jvec_done(m, &items, J_LIST, &list) ||
                       !lm_jv_iter(m, list, &it->inner)))
        return false;
    return next_inner(m, it, out);
}

static bool defer(jinja *m, const jargs *a, bool (*work)(jinja *m, const jargs *a, jvec *out),
                  const char *name, jval *out)
{
    jiter *it = lm_jiter_new(m, next_deferred, name);
    deferred *d = lm_jinja_new(m, 1, deferred);

    if (!it || !d)
        return false;
    *d = (deferred){ work, *a };
    it->state = d;
    *out = lm_jv_of_iter(it);
    return true;
}

static bool work_items(jinja *m, const jargs *a, jvec *out)
{
    if (a->v[0].type == J_UNDEFINED)
        return true;
    if (a->v[0].type != J_DICT)
        return lm_jinja_fail(m, LM_FAILED, "can only get item pairs from a mapping");
    jview view = { a->v[0].d, J_ITEMS };
    return lm_jv_collect(m, (jval){ .type = J_VIEW, .view = &view }, out);
}

static bool work_unique(jinja *m, const jargs *a, jvec *out)
{
    jvec items = { 0 }, seen = { 0 };
    jgetter g;

    if (!lm_jgetter_make(m, a->v[2], !lm_jarg_truth(a, 1), lm_jv_missing(), &g) ||
        !lm_jv_collect(m, a->v[0], &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        jval key;
        bool known = false;
        if (!lm_jgetter_get(m, &g, items.items[i], &key))
            return false;
        if (!lm_jv_hashable(m, key))
            return lm_jinja_type_error(m, "unhashable type", key);
        for (size_t k = 0; k < seen.n && !known; k++)
            if (!lm_jv_equal(m, seen.items[k], key, &known))
                return false;
        if (!known && (!lm_jvec_add(m, &seen, key) || !lm_jvec_add(m, out, items.items[i])))
            return false;
    }
    return true;
}

static bool add_list(jinja *m, jvec *out, const jvec *items)
{
    jval list;
    return lm_jvec_done(m, items, J_LIST, &list) && lm_jvec_add(m, out, list);
}

static bool work_batch(jinja *m, const jargs *a, jvec *out)
{
    jvec items = { 0 }, row = { 0 };
    int64_t size;
    bool fill = lm_jarg_given(a, 2) && a->v[2].type != J_NONE;

    if (!lm_jarg_int(m, a, 1, 0, "linecount", &size) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        if ((int64_t)row.n == size) {
            if (!add_list(m, out, &row))
                return false;
            row = (jvec){ 0 };
        }
        if (!lm_jvec_add(m, &row, items.items[i]))
            return false;
    }
    while (row.n && fill && (int64_t)row.n < size)
        if (!lm_jvec_add(m, &row, a->v[2]))
            return false;
    return !row.n || add_list(m, out, &row);
}

static bool work_slice(jinja *m, const jargs *a, jvec *out)
{
    jvec items = { 0 };
    int64_t slices;
    bool fill = lm_jarg_given(a, 2) && a->v[2].type != J_NONE;

    if (!lm_jarg_int(m, a, 1, 0, "slices", &slices) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    if (slices == 0)
        return lm_jinja_fail(m, LM_FAILED, "integer division or modulo by zero");
    size_t n = slices < 0 ? 0 : (size_t)slices, each = n ? items.n / n : 0, extra = n ? items.n % n : 0,
           at = 0;
    for (size_t i = 0; i < n; i++) {
        jvec row = { 0 };
        size_t end = at + each + (i < extra ? 1 : 0);
        for (; at < end; at++)
            if (!lm_jvec_add(m, &row, items.items[at]))
                return false;
        if (fill && i >= extra && !lm_jvec_add(m, &row, a->v[2]))
            return false;
        if (!add_list(m, out, &row))
            return false;
    }
    return true;
}

static bool filter_items(jinja *m, const jargs *a, jval *out)
{
    return defer(m, a, work_items, "do_items", out);
}
static bool filter_unique(jinja *m, const jargs *a, jval *out)
{
    return defer(m, a, work_unique, "sync_do_unique", out);
}
static bool filter_batch(jinja *m, const jargs *a, jval *out)
{
    return defer(m, a, work_batch, "do_batch", out);
}
static bool filter_slice(jinja *m, const jargs *a, jval *out)
{
    return defer(m, a, work_slice, "sync_do_slice", out);
}

const jbuiltin lm_jinja_lazy_filters[] = {
    { "map", "value / *", filter_map },
    { "select", "value / *", filter_select },
    { "reject", "value / *", filter_reject },
    { "selectattr", "value / *", filter_selectattr },
    { "rejectattr", "value / *", filter_rejectattr },
    { "items", "value", filter_items },
    { "unique", "value case_sensitive? attribute?", filter_unique },
    { "batch", "value linecount fill_with?", filter_batch },
    { "slice", "value slices fill_with?", filter_slice },
    { NULL, NULL, NULL },
};
