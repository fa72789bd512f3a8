/* jinja_filters_order.c - filters that sort sequences or find an extreme. */
#include "text/jinja/jinja_getter.h"

#include <string.h>

typedef struct keyed { jval key, value; } keyed;

/* Sort stably by merging; `reverse` keeps the order of equal items too, as in Python. */
static bool merge_sort(jinja *m, keyed *items, keyed *scratch, size_t n, bool reverse)
{
    size_t half = n / 2, i = 0, j = half, k = 0;

    if (n < 2)
        return true;
    if (!merge_sort(m, items, scratch, half, reverse) ||
        !merge_sort(m, items + half, scratch, n - half, reverse))
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

static bool sort_by(jinja *m, const jvec *items, const jval *keys, bool reverse, jvec *out,
                    jval **sorted_keys)
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
    jval comma = lm_jv_missing(), names = a->v[3];

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
    jgetter *g = lm_jinja_new(m, attributes.n, jgetter);
    if (!keys || !g)
        return false;
    for (size_t k = 0; k < attributes.n; k++)
        if (!lm_jgetter_make(m, attributes.items[k], !lm_jarg_truth(a, 2), comma, &g[k]))
            return false;
    for (size_t i = 0; i < items.n; i++) {
        jvec key = { 0 };
        for (size_t k = 0; k < attributes.n; k++) {
            jval part;
            if (!lm_jgetter_get(m, &g[k], items.items[i], &part) || !lm_jvec_add(m, &key, part))
                return false;
        }
        if (!lm_jvec_done(m, &key, J_LIST, &keys[i]))
            return false;
    }
    return sort_by(m, &items, keys, lm_jarg_truth(a, 1), &sorted, NULL) &&
           lm_jvec_done(m, &sorted, J_LIST, out);
}

static bool filter_dictsort(jinja *m, const jargs *a, jval *out)
{
    jvec items = { 0 }, sorted = { 0 };
    const jstr *by = NULL;
    size_t which;
    jgetter lower = { .lower = !lm_jarg_truth(a, 1) };

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
        if (!lm_jgetter_get(m, &lower, items.items[i].l->items[which], &keys[i]))
            return false;
    return keys && sort_by(m, &items, keys, lm_jarg_truth(a, 3), &sorted, NULL) &&
           lm_jvec_done(m, &sorted, J_LIST, out);
}

static bool keys_of(jinja *m, const jvec *items, const jgetter *g, jval **out)
{
    *out = lm_jinja_new(m, items->n + 1, jval);
    for (size_t i = 0; *out && i < items->n; i++)
        if (!lm_jgetter_get(m, g, items->items[i], &(*out)[i]))
            return false;
    return *out != NULL;
}

static bool add_group(jinja *m, jvec *out, const jgetter *real, const jvec *group)
{
    jval key, list, pair;

    if (!lm_jgetter_get(m, real, group->items[0], &key) || !lm_jvec_done(m, group, J_LIST, &list) ||
        !lm_jv_tuple2(m, key, list, &pair))
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
    jgetter g, real;
    jval *keys;

    if (!lm_jgetter_make(m, a->v[1], !lm_jarg_truth(a, 3), a->v[2], &g) ||
        !lm_jgetter_make(m, a->v[1], false, a->v[2], &real) || !lm_jv_collect(m, a->v[0], &items) ||
        !keys_of(m, &items, &g, &keys) || !sort_by(m, &items, keys, false, &sorted, &keys))
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
    jgetter g;
    size_t best = 0;

    if (!lm_jgetter_make(m, a->v[2], !lm_jarg_truth(a, 1), lm_jv_missing(), &g) ||
        !lm_jv_collect(m, a->v[0], &items))
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

const jbuiltin lm_jinja_order_filters[] = {
    { "sort", "value reverse? case_sensitive? attribute?", filter_sort },
    { "dictsort", "value case_sensitive? by? reverse?", filter_dictsort },
    { "groupby", "value attribute default? case_sensitive?", filter_groupby },
    { "min", "value case_sensitive? attribute?", filter_min },
    { "max", "value case_sensitive? attribute?", filter_max },
    { NULL, NULL, NULL },
};
