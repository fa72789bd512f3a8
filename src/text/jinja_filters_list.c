/* jinja_filters_list.c - filters on sequences. Those that are generators in jinja2 are lazy here too. */
#include "text/jinja.h"

#include <string.h>

/* ---- attributes of items: "a.b.0" ---- */

typedef struct getter {
    jval *parts;
    size_t n;
    jval otherwise;                      /* for what is undefined on the way; J_MISSING: nothing */
    bool lower;                          /* strings are compared without case */
} getter;

static bool make_getter(jinja *m, jval attribute, bool lower, jval otherwise, getter *g)
{
    jvec parts = { 0 };

    *g = (getter){ .otherwise = otherwise.type == J_NONE ? (jval){ .type = J_MISSING } : otherwise, .lower = lower };
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

static bool get(jinja *m, const getter *g, jval item, jval *out)
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
    jval  value;                         /* what is walked, once asked for */
    bool  started, attribute, reject;
    const jbuiltin *fn;
    getter get;
    jcall args;
} lazy;

static jval missing(void) { return (jval){ .type = J_MISSING }; }

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
    return lm_jv_repr(m, name, &s) && lm_jinja_fail(m, LM_FAILED, "no %s named %.*s", what, (int)(s->n < 64 ? s->n : 64), s->data);
}

static bool prepare_map(jinja *m, lazy *l)
{
    jval attribute = missing(), otherwise = missing();

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
        return make_getter(m, attribute, false, otherwise, &l->get);
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
    return l->attribute ? get(m, &l->get, item, out) : lm_jinja_call_builtin(m, l->fn, &item, &l->args, out);
}

static bool prepare_select(jinja *m, lazy *l)
{
    if (l->attribute) {
        if (!l->args.n_pos)
            return lm_jinja_fail(m, LM_FAILED, "missing parameter for attribute name");
        if (!make_getter(m, l->args.pos[0], false, missing(), &l->get))
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
        if (l->attribute && !get(m, &l->get, *out, &key))
            return false;
        keep = key;
        if (l->fn && !lm_jinja_call_builtin(m, l->fn, &key, &l->args, &keep))
            return false;
        if (lm_jv_truth(keep) != l->reject)
            return true;
    }
    return true;
}

static bool lazily(jinja *m, const jargs *a, jnext next, const char *name, bool attribute, bool reject, jval *out)
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

static bool filter_map(jinja *m, const jargs *a, jval *out) { return lazily(m, a, next_mapped, "sync_do_map", false, false, out); }
static bool filter_select(jinja *m, const jargs *a, jval *out) { return lazily(m, a, next_selected, "sync_do_select", false, false, out); }
static bool filter_reject(jinja *m, const jargs *a, jval *out) { return lazily(m, a, next_selected, "sync_do_reject", false, true, out); }
static bool filter_selectattr(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_selectattr", true, false, out);
}
static bool filter_rejectattr(jinja *m, const jargs *a, jval *out)
{
    return lazily(m, a, next_selected, "sync_do_rejectattr", true, true, out);
}

/* ---- generators that are worked out whole when first asked ---- */

typedef struct deferred {
    bool (*work)(jinja *m, const jargs *a, jvec *out);
    jargs args;
} deferred;

static bool next_deferred(jinja *m, jiter *it, jval *out)
{
    deferred *d = it->state;
    jvec items = { 0 };
    jval list;

    if (!it->inner && (!d->work(m, &d->args, &items) || !lm_jvec_done(m, &items, J_LIST, &list) || !lm_jv_iter(m, list, &it->inner)))
        return false;
    return next_inner(m, it, out);
}

static bool defer(jinja *m, const jargs *a, bool (*work)(jinja *m, const jargs *a, jvec *out), const char *name, jval *out)
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
    getter g;

    if (!make_getter(m, a->v[2], !lm_jarg_truth(a, 1), missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        jval key;
        bool known = false;
        if (!get(m, &g, items.items[i], &key))
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
    size_t n = slices < 0 ? 0 : (size_t)slices, each = n ? items.n / n : 0, extra = n ? items.n % n : 0, at = 0;
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

static bool filter_items(jinja *m, const jargs *a, jval *out) { return defer(m, a, work_items, "do_items", out); }
static bool filter_unique(jinja *m, const jargs *a, jval *out) { return defer(m, a, work_unique, "sync_do_unique", out); }
static bool filter_batch(jinja *m, const jargs *a, jval *out) { return defer(m, a, work_batch, "do_batch", out); }
static bool filter_slice(jinja *m, const jargs *a, jval *out) { return defer(m, a, work_slice, "sync_do_slice", out); }

/* ---- order ---- */

typedef struct keyed { jval key, value; } keyed;

/* A stable merge sort; `reverse` keeps equal items in their order too, as Python's does. */
static bool merge_sort(jinja *m, keyed *items, keyed *scratch, size_t n, bool reverse)
{
    size_t half = n / 2, i = 0, j = half, k = 0;

    if (n < 2)
        return true;
    if (!merge_sort(m, items, scratch, half, reverse) || !merge_sort(m, items + half, scratch, n - half, reverse))
        return false;
    while (i < half && j < n) {
        int order;
        if (!(reverse ? lm_jv_less(m, items[i].key, items[j].key, "<", &order)
                      : lm_jv_less(m, items[j].key, items[i].key, "<", &order)))
            return false;
        scratch[k++] = order == -1 ? items[j++] : items[i++];
    }
    while (i < half)
        scratch[k++] = items[i++];
    memcpy(items, scratch, k * sizeof *items);
    return true;
}

static bool sort_by(jinja *m, const jvec *items, const jval *keys, bool reverse, jvec *out, jval **sorted_keys)
{
    keyed *pairs = lm_jinja_new(m, 2 * items->n + 1, keyed);
    jval *kept = lm_jinja_new(m, items->n + 1, jval);

    if (!pairs || !kept)
        return false;
    for (size_t i = 0; i < items->n; i++)
        pairs[i] = (keyed){ keys[i], items->items[i] };
    if (!merge_sort(m, pairs, pairs + items->n, items->n, reverse))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        kept[i] = pairs[i].key;
        if (!lm_jvec_add(m, out, pairs[i].value))
            return false;
    }
    if (sorted_keys)
        *sorted_keys = kept;
    return true;
}

static bool filter_sort(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 }, sorted = { 0 }, attributes = { 0 };
    jval comma = missing(), names = a->v[3];

    if (!lm_jv_collect(m, a->v[0], &items))
        return false;
    if (names.type == J_STR) {
        for (size_t from = 0; from <= names.s->n;) {
            const char *end = memchr(names.s->data + from, ',', names.s->n - from);
            size_t to = end ? (size_t)(end - names.s->data) : names.s->n;
            const jstr *part = lm_jstr_slice(m, names.s, from, to);
            if (!part || !lm_jvec_add(m, &attributes, lm_jv_of_str(part)))
                return false;
            from = to + 1;
        }
    } else if (!lm_jvec_add(m, &attributes, names)) {
        return false;
    }
    jval *keys = lm_jinja_new(m, items.n + 1, jval);
    getter *g = lm_jinja_new(m, attributes.n, getter);
    if (!keys || !g)
        return false;
    for (size_t k = 0; k < attributes.n; k++)
        if (!make_getter(m, attributes.items[k], !lm_jarg_truth(a, 2), comma, &g[k]))
            return false;
    for (size_t i = 0; i < items.n; i++) {
        jvec key = { 0 };
        for (size_t k = 0; k < attributes.n; k++) {
            jval part;
            if (!get(m, &g[k], items.items[i], &part) || !lm_jvec_add(m, &key, part))
                return false;
        }
        if (!lm_jvec_done(m, &key, J_LIST, &keys[i]))
            return false;
    }
    return sort_by(m, &items, keys, lm_jarg_truth(a, 1), &sorted, NULL) && lm_jvec_done(m, &sorted, J_LIST, out);
}

static bool filter_dictsort(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 }, sorted = { 0 };
    const jstr *by = NULL;
    size_t which;
    getter lower = { .lower = !lm_jarg_truth(a, 1) };

    if (lm_jarg_given(a, 2) && !lm_jarg_str(m, a, 2, "by", &by))
        return false;
    which = by && lm_jstr_is(by, "value") ? 1 : 0;
    if (by && !which && !lm_jstr_is(by, "key"))
        return lm_jinja_fail(m, LM_FAILED, "you can only sort by either \"key\" or \"value\"");
    if (a->v[0].type != J_DICT)
        return lm_jinja_type_error(m, "dictsort wants a mapping, not", a->v[0]);
    jview view = { a->v[0].d, J_ITEMS };
    if (!lm_jv_collect(m, (jval){ .type = J_VIEW, .view = &view }, &items))
        return false;
    jval *keys = lm_jinja_new(m, items.n + 1, jval);
    for (size_t i = 0; keys && i < items.n; i++)
        if (!get(m, &lower, items.items[i].l->items[which], &keys[i]))
            return false;
    return keys && sort_by(m, &items, keys, lm_jarg_truth(a, 3), &sorted, NULL) && lm_jvec_done(m, &sorted, J_LIST, out);
}

static bool keys_of(jinja *m, const jvec *items, const getter *g, jval **out)
{
    *out = lm_jinja_new(m, items->n + 1, jval);
    for (size_t i = 0; *out && i < items->n; i++)
        if (!get(m, g, items->items[i], &(*out)[i]))
            return false;
    return *out != NULL;
}

static bool add_group(jinja *m, jvec *out, const getter *real, const jvec *group)
{
    jval key, list, pair;

    if (!get(m, real, group->items[0], &key) || !lm_jvec_done(m, group, J_LIST, &list) || !lm_jv_tuple2(m, key, list, &pair))
        return false;
    jlist *named = lm_jinja_new(m, 1, jlist);
    if (!named)
        return false;
    *named = *pair.l;
    named->group = true;
    return lm_jvec_add(m, out, lm_jv_of_tuple(named));
}

static bool filter_groupby(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 }, sorted = { 0 }, groups = { 0 }, group = { 0 };
    getter g, real;
    jval *keys;

    if (!make_getter(m, a->v[1], !lm_jarg_truth(a, 3), a->v[2], &g) || !make_getter(m, a->v[1], false, a->v[2], &real) ||
        !lm_jv_collect(m, a->v[0], &items) || !keys_of(m, &items, &g, &keys) ||
        !sort_by(m, &items, keys, false, &sorted, &keys))
        return false;
    for (size_t i = 0; i < sorted.n; i++) {
        bool same = false;
        if (group.n && !lm_jv_equal(m, keys[i - 1], keys[i], &same))
            return false;
        if (group.n && !same) {
            if (!add_group(m, &groups, &real, &group))
                return false;
            group = (jvec){ 0 };
        }
        if (!lm_jvec_add(m, &group, sorted.items[i]))
            return false;
    }
    return (!group.n || add_group(m, &groups, &real, &group)) && lm_jvec_done(m, &groups, J_LIST, out);
}

static bool extreme(jinja *m, const jargs *a, bool largest, jval *out)
{
    jvec items = { 0 };
    jval *keys;
    getter g;
    size_t best = 0;

    if (!make_getter(m, a->v[2], !lm_jarg_truth(a, 1), missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    if (!items.n)
        return lm_jv_undefined(m, "no aggregated item, sequence was empty", out);
    if (!keys_of(m, &items, &g, &keys))
        return false;
    for (size_t i = 1; i < items.n; i++) {
        int order;
        if (!lm_jv_less(m, keys[i], keys[best], largest ? ">" : "<", &order))
            return false;
        best = order == (largest ? 1 : -1) ? i : best;
    }
    *out = items.items[best];
    return true;
}

static bool filter_min(jinja *m, const jargs *a, jval *out) { return extreme(m, a, false, out); }
static bool filter_max(jinja *m, const jargs *a, jval *out) { return extreme(m, a, true, out); }

/* ---- the rest ---- */

static bool filter_sum(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 };
    getter g;

    if (!make_getter(m, a->v[1], false, missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    *out = lm_jarg_given(a, 2) ? a->v[2] : lm_jv_int(0);
    if (out->type == J_STR)
        return lm_jinja_fail(m, LM_FAILED, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.n; i++) {
        jval v;
        if (!get(m, &g, items.items[i], &v) || !lm_jinja_arith(m, OP_ADD, *out, v, out))
            return false;
    }
    return true;
}

static bool filter_join(jinja *m, const jargs *a, jval *out)
{
    const jstr *separator = NULL;
    jvec items = { 0 };
    jbuild b = { 0 };
    getter g;

    if (lm_jarg_given(a, 1) && !lm_jv_str(m, a->v[1], &separator))
        return false;
    if (!make_getter(m, a->v[2], false, missing(), &g) || !lm_jv_collect(m, a->v[0], &items))
        return false;
    /* str(d).join(…): a Markup separator stays one, and escapes */
    bool safe = separator && separator->safe && a->v[1].type != J_STR;
    for (size_t i = 0; i < items.n; i++) {
        jval v;
        if (!get(m, &g, items.items[i], &v))
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
    jval v = a->v[0], step[3] = { missing(), missing(), lm_jv_int(-1) };
    bool possible;
    jvec items = { 0 };

    if (v.type == J_STR)
        return lm_jinja_slice(m, v, step, out);
    if (!lm_jv_reversed(m, v, &possible, out))
        return false;
    if (possible)
        return true;
    return lm_jv_collect(m, v, &items) && lm_jvec_done(m, &items, J_LIST, &v) && lm_jinja_slice(m, v, step, out);
}

const jbuiltin lm_jinja_list_filters[] = {
    { "map", "value / *", filter_map },
    { "select", "value / *", filter_select },
    { "reject", "value / *", filter_reject },
    { "selectattr", "value / *", filter_selectattr },
    { "rejectattr", "value / *", filter_rejectattr },
    { "items", "value", filter_items },
    { "unique", "value case_sensitive? attribute?", filter_unique },
    { "batch", "value linecount fill_with?", filter_batch },
    { "slice", "value slices fill_with?", filter_slice },
    { "sort", "value reverse? case_sensitive? attribute?", filter_sort },
    { "dictsort", "value case_sensitive? by? reverse?", filter_dictsort },
    { "groupby", "value attribute default? case_sensitive?", filter_groupby },
    { "min", "value case_sensitive? attribute?", filter_min },
    { "max", "value case_sensitive? attribute?", filter_max },
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
    return fn ? fn : lm_jinja_find_in(lm_jinja_number_filters, name, n);
}
