/* jinja_iter.c - iteration over values. Generators are lazy and are read once, as in Python. */
#include "text/jinja/jinja.h"

jiter *lm_jiter_new(jinja *m, jnext next, const char *name)
{
    jiter *it = lm_jinja_new(m, 1, jiter);
    if (it)
        *it = (jiter){ .next = next, .name = name };
    return it;
}

bool lm_jiter_next(jinja *m, jiter *it, jval *out)
{
    if (it->done)
        return true;
    if (!lm_jinja_enter(m))                          /* generators over generators over … */
        return false;
    bool ok = it->next(m, it, out);
    m->depth--;
    return ok;
}

static bool next_of_list(jinja *m, jiter *it, jval *out)
{
    (void)m;
    it->done = it->at >= it->of.l->n;
    if (!it->done)
        *out = it->of.l->items[it->at++];
    return true;
}

static bool next_of_list_back(jinja *m, jiter *it, jval *out)
{
    (void)m;
    it->done = it->at >= it->of.l->n;
    if (!it->done)
        *out = it->of.l->items[it->of.l->n - ++it->at];
    return true;
}

static bool next_of_str(jinja *m, jiter *it, jval *out)
{
    const jstr *s = it->of.s, *c;
    size_t n;

    it->done = it->at >= s->n;
    if (it->done)
        return true;
    lm_cp_at(s->data, it->at, &n);
    c = lm_jstr_plain(m, lm_jstr_slice(m, s, it->at, it->at + n));
    if (!c)
        return false;
    it->at += n;
    *out = lm_jv_of_str(c);
    return true;
}

static bool view_item(jinja *m, const jview *view, size_t i, jval *out)
{
    const jpair *p = &view->d->pairs[i];
    if (view->kind == J_ITEMS)
        return lm_jv_tuple2(m, p->key, p->value, out);
    *out = view->kind == J_KEYS ? p->key : p->value;
    return true;
}

static bool next_of_view(jinja *m, jiter *it, jval *out)
{
    it->done = it->at >= it->of.view->d->n;
    return it->done || view_item(m, it->of.view, it->at++, out);
}

static bool next_of_view_back(jinja *m, jiter *it, jval *out)
{
    size_t n = it->of.view->d->n;
    it->done = it->at >= n;
    return it->done || view_item(m, it->of.view, n - ++it->at, out);
}

static bool next_of_range(jinja *m, jiter *it, jval *out)
{
    const jrange *r = it->of.r;
    (void)m;
    it->done = it->at >= r->n;
    if (!it->done)
        *out = lm_jv_int(r->start + (int64_t)it->at++ * r->step);
    return true;
}

static bool next_of_range_back(jinja *m, jiter *it, jval *out)
{
    const jrange *r = it->of.r;
    (void)m;
    it->done = it->at >= r->n;
    if (!it->done)
        *out = lm_jv_int(r->start + (int64_t)(r->n - ++it->at) * r->step);
    return true;
}

static bool next_of_nothing(jinja *m, jiter *it, jval *out)
{
    (void)m;
    (void)out;
    it->done = true;
    return true;
}

bool lm_jv_iterable(jval v)
{
    switch (v.type) {
    case J_UNDEFINED:
    case J_STR:
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_RANGE:
    case J_VIEW:
    case J_ITER: return true;
    default:
        return false;
    }
}

static bool keys_of(jinja *m, const jdict *d, jval *out)
{
    jview *view = lm_jinja_new(m, 1, jview);
    if (!view)
        return false;
    *view = (jview){ d, J_KEYS };
    *out = (jval){ .type = J_VIEW, .view = view };
    return true;
}

bool lm_jv_iter(jinja *m, jval v, jiter **out)
{
    jnext next;
    const char *name = "iterator";

    if (v.type == J_DICT && !keys_of(m, v.d, &v))
        return false;
    switch (v.type) {
    case J_ITER:
        *out = v.it;
        return true;
    case J_UNDEFINED: next = next_of_nothing; break;
    case J_STR: next = next_of_str; name = "str_iterator"; break;
    case J_LIST: next = next_of_list; name = "list_iterator"; break;
    case J_TUPLE: next = next_of_list; name = "tuple_iterator"; break;
    case J_VIEW: next = next_of_view; name = "dict_iterator"; break;
    case J_RANGE: next = next_of_range; name = "range_iterator"; break;
    default:
        return lm_jinja_fail(m, LM_FAILED, "'%s' object is not iterable", lm_jv_type_name(v));
    }
    *out = lm_jiter_new(m, next, name);
    if (!*out)
        return false;
    (*out)->of = v;
    return true;
}

bool lm_jv_collect(jinja *m, jval v, jvec *out)
{
    jiter *it;
    jval item;

    if (!lm_jv_iter(m, v, &it))
        return false;
    for (;;) {
        if (!lm_jiter_next(m, it, &item))
            return false;
        if (it->done)
            return true;
        if (!lm_jvec_add(m, out, item))
            return false;
    }
}

bool lm_jv_reversed(jinja *m, jval v, bool *possible, jval *out)
{
    jnext next = NULL;

    if (v.type == J_DICT && !keys_of(m, v.d, &v))
        return false;
    switch (v.type) {
    case J_UNDEFINED: next = next_of_nothing; break;
    case J_LIST: case J_TUPLE: next = next_of_list_back; break;
    case J_VIEW: next = next_of_view_back; break;
    case J_RANGE: next = next_of_range_back; break;
    case J_STR: {
        jvec chars = { 0 };
        if (!lm_jv_collect(m, v, &chars) || !lm_jvec_done(m, &chars, J_LIST, &v))
            return false;
        next = next_of_list_back;
        break;
    }
    default: break;
    }
    *possible = next != NULL;
    if (!next)
        return true;
    jiter *it = lm_jiter_new(m, next, "reversed");
    if (!it)
        return false;
    it->of = v;
    *out = lm_jv_of_iter(it);
    return true;
}
