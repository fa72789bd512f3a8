/* jinja_container.c - lists and dicts. */
#include "text/jinja/jinja.h"

#include <string.h>

bool lm_jvec_add(jinja *m, jvec *v, jval item)
{
    if (v->n == v->capacity) {
        size_t capacity = v->capacity ? 2 * v->capacity : 8;
        jval *items = lm_jinja_new(m, capacity, jval);
        if (!items)
            return false;
        if (v->n)
            memcpy(items, v->items, v->n * sizeof *items);
        v->items = items;
        v->capacity = capacity;
    }
    v->items[v->n++] = item;
    return lm_jinja_spend(m, 1);
}

bool lm_jvec_done(jinja *m, const jvec *v, jtype type, jval *out)
{
    jlist *l = lm_jinja_new(m, 1, jlist);
    if (!l)
        return false;
    *l = (jlist){ .items = v->items, .n = v->n };
    *out = (jval){ .type = type, .l = l };
    return true;
}

bool lm_jv_tuple2(jinja *m, jval a, jval b, jval *out)
{
    jvec v = { .items = lm_jinja_new(m, 2, jval), .n = 2, .capacity = 2 };
    if (!v.items)
        return false;
    v.items[0] = a;
    v.items[1] = b;
    return lm_jvec_done(m, &v, J_TUPLE, out);
}

const jlist *lm_jlist_concat(jinja *m, const jlist *a, const jlist *b)
{
    jlist *r = lm_jinja_new(m, 1, jlist);
    if (!r || !lm_jinja_spend(m, b->n))
        return NULL;
    r->n = a->n + b->n;
    if (a->used && *a->used == a->n && a->capacity - a->n >= b->n) {
        r->items = a->items;
        r->used = a->used;
        r->capacity = a->capacity;
    } else {
        r->capacity = 2 * r->n;
        jval *items = lm_jinja_new(m, r->capacity, jval);
        r->used = lm_jinja_new(m, 1, size_t);
        if (!items || !r->used || !lm_jinja_spend(m, a->n / 16))
            return NULL;
        if (a->n)
            memcpy(items, a->items, a->n * sizeof *items);
        r->items = items;
    }
    if (b->n)
        memcpy((jval *)r->items + a->n, b->items, b->n * sizeof(jval));
    *r->used = r->n;
    return r;
}

bool lm_jv_hashable(jinja *m, jval v)
{
    if (v.type == J_TUPLE)
        for (size_t i = 0; i < v.l->n; i++)
            if (!lm_jinja_spend(m, 1) || !lm_jv_hashable(m, v.l->items[i]))
                return false;
    return v.type != J_LIST && v.type != J_DICT && v.type != J_VIEW;
}

bool lm_jdict_find(const jdict *d, const char *name, size_t n, jval *out)
{
    for (size_t i = 0; i < d->n; i++) {
        jval k = d->pairs[i].key;
        if (k.type == J_STR && k.s->n == n && memcmp(k.s->data, name, n) == 0) {
            *out = d->pairs[i].value;
            return true;
        }
    }
    return false;
}

/* Find the index of a key; d->n: not found. */
static bool find(jinja *m, const jdict *d, jval key, size_t *out)
{
    if (!lm_jv_hashable(m, key))
        return lm_jinja_type_error(m, "unhashable type", key);
    if (!lm_jinja_spend(m, d->n / 32))
        return false;
    for (size_t i = 0; i < d->n; i++) {
        bool equal = false;
        jval k = d->pairs[i].key;
        if (k.type == J_STR && key.type == J_STR)
            equal = lm_jstr_equal(k.s, key.s);
        else if (!lm_jv_equal(m, k, key, &equal))
            return false;
        if (equal) {
            *out = i;
            return true;
        }
    }
    *out = d->n;
    return true;
}

bool lm_jdict_get(jinja *m, const jdict *d, jval key, jval *out, bool *found)
{
    size_t i;
    if (!find(m, d, key, &i))
        return false;
    *found = i < d->n;
    if (*found)
        *out = d->pairs[i].value;
    return true;
}

bool lm_jdict_set(jinja *m, jdict *d, jval key, jval value)
{
    size_t i;
    if (!find(m, d, key, &i))
        return false;
    if (i < d->n) {
        d->pairs[i].value = value;
        return true;
    }
    if (d->n == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 4;
        jpair *pairs = lm_jinja_new(m, capacity, jpair);
        if (!pairs)
            return false;
        if (d->n)
            memcpy(pairs, d->pairs, d->n * sizeof *pairs);
        d->pairs = pairs;
        d->capacity = capacity;
    }
    d->pairs[d->n++] = (jpair){ key, value };
    return lm_jinja_spend(m, 1);
}
