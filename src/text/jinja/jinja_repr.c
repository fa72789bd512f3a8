/* jinja_repr.c - str() and repr() of values. */
#include "text/jinja/jinja.h"

#include <inttypes.h>
#include <string.h>

static void put_repr(jinja *m, jbuild *b, jval v, unsigned depth);

static void put_str_repr(jinja *m, jbuild *b, const jstr *s)
{
    bool single = s->n && memchr(s->data, '\'', s->n), both = single && memchr(s->data, '"', s->n);
    char quote = single && !both ? '"' : '\'';
    size_t n;

    lm_jb_add(m, b, &quote, 1, false);
    for (size_t i = 0; i < s->n && m->status == LM_OK; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        bool content = lm_jstr_content_at(s, i);
        char escape[16];
        int length = 0;

        if (c == '\\' || c == quote)
            length = snprintf(escape, sizeof escape, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            length = snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!lm_cp_is_printable(c))
            length = snprintf(escape, sizeof escape,
                              c < 0x100     ? "\\x%02x"
                              : c < 0x10000 ? "\\u%04x"
                                            : "\\U%08x",
                              (unsigned)c);
        if (length)
            lm_jb_add(m, b, escape, (size_t)length, content);
        else
            lm_jb_add(m, b, s->data + i, n, content);
    }
    lm_jb_add(m, b, &quote, 1, false);
}

static void put_items(jinja *m, jbuild *b, const jlist *l, unsigned depth)
{
    for (size_t i = 0; i < l->n && m->status == LM_OK; i++) {
        if (i)
            lm_jb_puts(m, b, ", ");
        put_repr(m, b, l->items[i], depth);
    }
}

static void put_dict(jinja *m, jbuild *b, const jdict *d, unsigned depth)
{
    lm_jb_puts(m, b, "{");
    for (size_t i = 0; i < d->n && m->status == LM_OK; i++) {
        if (i)
            lm_jb_puts(m, b, ", ");
        put_repr(m, b, d->pairs[i].key, depth);
        lm_jb_puts(m, b, ": ");
        put_repr(m, b, d->pairs[i].value, depth);
    }
    lm_jb_puts(m, b, "}");
}

static void put_view(jinja *m, jbuild *b, const jview *view, unsigned depth)
{
    static const char *const names[] = { "dict_keys([", "dict_values([", "dict_items([" };

    lm_jb_puts(m, b, names[view->kind]);
    for (size_t i = 0; i < view->d->n && m->status == LM_OK; i++) {
        const jpair *p = &view->d->pairs[i];
        if (i)
            lm_jb_puts(m, b, ", ");
        if (view->kind == J_ITEMS)
            lm_jb_puts(m, b, "(");
        if (view->kind != J_VALUES)
            put_repr(m, b, p->key, depth);
        if (view->kind == J_ITEMS)
            lm_jb_puts(m, b, ", ");
        if (view->kind != J_KEYS)
            put_repr(m, b, p->value, depth);
        if (view->kind == J_ITEMS)
            lm_jb_puts(m, b, ")");
    }
    lm_jb_puts(m, b, "])");
}

/* Append the repr of other values. Where Python shows an address, it is omitted. */
static void put_object(jinja *m, jbuild *b, jval v)
{
    char text[128];
    switch (v.type) {
    case J_RANGE:
        if (v.r->step == 1)
            snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", v.r->start, v.r->stop);
        else
            snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", v.r->start, v.r->stop,
                     v.r->step);
        break;
    case J_ITER:
        snprintf(text, sizeof text, "<generator object %s>", v.it->name);
        break;
    case J_LOOP:
        if (!lm_jloop_length(m, v.loop))
            return;
        snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%" PRId64 ">", v.loop->index0 + 1,
                 v.loop->length);
        break;
    case J_FUNCTION:
        snprintf(text, sizeof text, "<function %s>", v.fn->name);
        break;
    case J_METHOD:
        snprintf(text, sizeof text, "<built-in method %s of %s object>", v.method->fn->name,
                 lm_jv_type_name(v.method->self));
        break;
    default:
        snprintf(text, sizeof text, "<%s object>", lm_jv_type_name(v));
        break;
    }
    lm_jb_puts(m, b, text);
}

static void put_repr(jinja *m, jbuild *b, jval v, unsigned depth)
{
    char text[LM_FLOAT_TEXT];

    if (!lm_jinja_spend(m, 1))
        return;
    if (depth > J_MAX_DATA) {
        lm_jinja_fail(m, LM_LIMIT, "values nested deeper than %d", J_MAX_DATA);
        return;
    }
    switch (v.type) {
    case J_MISSING: case J_UNDEFINED:
        lm_jb_puts(m, b, "Undefined");
        break;
    case J_NONE:
        lm_jb_puts(m, b, "None");
        break;
    case J_BOOL:
        lm_jb_puts(m, b, v.b ? "True" : "False");
        break;
    case J_INT:
        snprintf(text, sizeof text, "%" PRId64, v.i);
        lm_jb_puts(m, b, text);
        break;
    case J_BIG:
        lm_jb_str(m, b, v.s);
        break;
    case J_FLOAT:
        lm_jb_add(m, b, text, lm_float_text(v.f, text), false);
        break;
    case J_STR:
        if (v.s->safe)
            lm_jb_puts(m, b, "Markup(");
        put_str_repr(m, b, v.s);
        if (v.s->safe)
            lm_jb_puts(m, b, ")");
        break;
    case J_LIST:
        lm_jb_puts(m, b, "[");
        put_items(m, b, v.l, depth + 1);
        lm_jb_puts(m, b, "]");
        break;
    case J_TUPLE:
        lm_jb_puts(m, b, "(");
        put_items(m, b, v.l, depth + 1);
        lm_jb_puts(m, b, v.l->n == 1 ? ",)" : ")");
        break;
    case J_DICT:
        put_dict(m, b, v.d, depth + 1);
        break;
    case J_VIEW:
        put_view(m, b, v.view, depth + 1);
        break;
    case J_NAMESPACE:
        lm_jb_puts(m, b, "<Namespace ");
        put_dict(m, b, &v.ns->d, depth + 1);
        lm_jb_puts(m, b, ">");
        break;
    case J_MACRO:
        lm_jb_puts(m, b, "<Macro ");
        if (v.macro->def->name)
            put_str_repr(m, b, v.macro->def->name);
        else
            lm_jb_puts(m, b, "anonymous");
        lm_jb_puts(m, b, ">");
        break;
    default:
        put_object(m, b, v);
        break;
    }
}

bool lm_jv_has_content(jinja *m, jval v, unsigned depth)
{
    if (depth > J_MAX_DATA || !lm_jinja_spend(m, 1))
        return true;
    switch (v.type) {
    case J_STR:
        return lm_jstr_is_content(v.s);
    case J_LIST: case J_TUPLE:
        for (size_t i = 0; i < v.l->n; i++)
            if (lm_jv_has_content(m, v.l->items[i], depth + 1))
                return true;
        return false;
    case J_DICT: case J_VIEW: case J_NAMESPACE: {
        const jdict *d = v.type == J_DICT ? v.d : v.type == J_VIEW ? v.view->d : &v.ns->d;
        for (size_t i = 0; i < d->n; i++)
            if (lm_jv_has_content(m, d->pairs[i].key, depth + 1) ||
                lm_jv_has_content(m, d->pairs[i].value, depth + 1))
                return true;
        return false;
    }
    default:
        return false;
    }
}

/* Append a container. If it holds any content, all of its text is content, because its shape came from
 * outside too. */
static void put_container(jinja *m, jbuild *b, jval v)
{
    size_t from = b->n;
    put_repr(m, b, v, 0);
    if (m->status != LM_OK || !lm_jv_has_content(m, v, 0))
        return;
    lm_jb_mark(m, b, from);
}

void lm_jb_value(jinja *m, jbuild *b, jval v)
{
    switch (v.type) {
    case J_MISSING: case J_UNDEFINED:
        break;
    case J_STR:
        lm_jb_str(m, b, v.s);
        break;
    case J_LIST: case J_TUPLE: case J_DICT: case J_VIEW: case J_NAMESPACE:
        put_container(m, b, v);
        break;
    default:
        put_repr(m, b, v, 0);
        break;
    }
}

bool lm_jv_str(jinja *m, jval v, const jstr **out)
{
    jbuild b = { 0 };
    jval text;

    if (v.type == J_STR) {
        *out = v.s;
        return true;
    }
    lm_jb_value(m, &b, v);
    if (!lm_jb_done(m, &b, false, &text))
        return false;
    *out = text.s;
    return true;
}

bool lm_jv_repr(jinja *m, jval v, const jstr **out)
{
    jbuild b = { 0 };
    jval text;

    put_repr(m, &b, v, 0);
    if (!lm_jb_done(m, &b, false, &text))
        return false;
    *out = text.s;
    return true;
}
