/* learned.c - the marks of a template's calls, found in renderings of one call and of two.
 *
 * The body of a call is a JSON object, or a name and what belongs to it. What surrounds bodies is
 *
 *   before   section.open call.open
 *   between  call.close between call.open
 *   after    call.close section.close
 *
 * so what `between` shares with the other two are the marks of a call, and the rest are those of a
 * section. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "base/str.h"
#include "text/answer/shown.h"
#include "text/answer/written.h"

enum { MAX_MARKS_SIZE = 2048, MAX_SHOWN = 1 << 16 };

typedef struct learned {
    lm_answer_family f;
    size_t used;
    bool   failed;
    char   marks[MAX_MARKS_SIZE];
} learned;

/* ---- pieces of text ---- */

static lm_view part(const char *from, const char *to)
{
    return (lm_view){ from, to > from ? (size_t)(to - from) : 0 };
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static lm_view trim(lm_view v)
{
    while (v.size && is_space(v.data[0]))
        v.data++, v.size--;
    while (v.size && is_space(v.data[v.size - 1]))
        v.size--;
    return v;
}

/* A copy that belongs to the family; NULL: empty. */
static const char *keep(learned *l, lm_view v)
{
    char *out = l->marks + l->used;

    if (!v.size)
        return NULL;
    if (v.size >= sizeof l->marks - l->used) {
        l->failed = true;
        return NULL;
    }
    memcpy(out, v.data, v.size);
    out[v.size] = 0;
    l->used += v.size + 1;
    l->failed |= strlen(out) < v.size || strstr(out, "probe");   /* no mark: it varies with the call */
    return out;
}

/* Split the text between two bodies, or two arguments: its end is also the end of `before`, its start is also
 * the start of `after`; neither ends inside a mark. */
static void share(lm_view before, lm_view between, lm_view after, size_t *open, size_t *close)
{
    size_t o = 0, c = 0;

    while (o < before.size && o < between.size &&
           before.data[before.size - o - 1] == between.data[between.size - o - 1])
        o++;
    o = between.size - lm_mark_after(between.data, between.size, between.size - o);
    while (c < after.size && c < between.size - o && after.data[c] == between.data[c])
        c++;
    if (c < after.size || c < between.size - o)
        c = lm_mark_before(between.data, c);
    *open  = o;
    *close = c;
}

/* ---- what is around calls ---- */

/* Take the brackets of a list from the marks of the section. */
static void take_brackets(lm_view *open, lm_view *close, lm_view between, bool *list)
{
    *list = open->size && open->data[open->size - 1] == '[' && close->size && close->data[0] == ']' &&
            (!between.size || lm_view_is(between, ","));
    if (*list) {
        *open  = trim((lm_view){ open->data, open->size - 1 });
        *close = trim((lm_view){ close->data + 1, close->size - 1 });
    }
}

/* Set the marks around calls. `between`: empty if the template shows one call only. */
static void set_marks(learned *l, lm_view before, lm_view between, lm_view after, bool two)
{
    lm_answer_family *f = &l->f;
    size_t o = before.size, c = after.size;
    bool list;

    if (two)
        share(before, between, after, &o, &c);
    lm_view open = trim(part(before.data, before.data + before.size - o)),
            close = trim(part(after.data + c, after.data + after.size)),
            call = trim(part(before.data + before.size - o, before.data + before.size)),
            call_end = trim(part(after.data, after.data + c)),
            comma = two ? trim(part(between.data + c, between.data + between.size - o)) : (lm_view){ 0 };
    if (!two)
        take_brackets(&call, &call_end, comma, &list);
    else
        take_brackets(&open, &close, comma, &list);
    if (!two && list)
        open = call, close = call_end, call = call_end = (lm_view){ 0 };
    f->section.open  = keep(l, open);
    f->section.close = f->section.open ? keep(l, close) : NULL;
    f->call.open     = keep(l, call);
    f->call.close    = f->call.open || f->form == LM_FORM_TAGGED ? keep(l, call_end) : NULL;
    f->bare  = !f->section.open && !f->call.open;
    f->array = f->bare && list;
    f->apart = !list;
    if (!list && comma.size && !lm_view_is(comma, ",") && !lm_view_is(comma, ";"))
        f->between = keep(l, comma);
    l->failed |= f->bare && f->form != LM_FORM_OBJECT && f->form != LM_FORM_PYTHON;
    l->failed |= f->bare && (call_end.size || close.size);
    l->failed |= f->form == LM_FORM_TAGGED && !f->call.close;
}

/* Find the marks around bodies of one size, the first of which is [body, end) of the rendering of one. */
static void around(learned *l, const lm_shown *s, const char *name, const char *body, const char *end)
{
    const char *first = s->two.size ? strstr(s->two.data, LM_PROBE_NAME) : NULL,
               *second = first ? strstr(first + 1, LM_PROBE_NAME) : NULL;
    size_t lead = (size_t)(name - body), size = (size_t)(end - body);
    lm_view before = part(s->one.data, body), after = part(end, s->one.data + s->one.size), between = { 0 };
    bool two = second && (size_t)(second - first) >= size &&
               (size_t)(s->two.data + s->two.size - second) + lead >= size;

    if (two)
        between = part(first - lead + size, second - lead);
    set_marks(l, before, between, after, two);
}

/* ---- forms ---- */

/* The key of the member that is the name, or the arguments. */
static void find_keys(learned *l, const json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach(lm_json_iterable(object), key, value) {
        bool name = json_is_string(value) && strcmp(json_string_value(value), LM_PROBE_NAME) == 0;
        if (name)
            l->f.name_key = keep(l, lm_view_of(key));
        else if (json_is_object(value) || (json_is_string(value) && *json_string_value(value) == '{'))
            l->f.arguments_key = keep(l, lm_view_of(key));
    }
}

/* {"name": …, "arguments": …}, or {"name": {…}}. */
static bool learn_object(learned *l, const lm_shown *s, const char *name)
{
    for (const char *at = name; at-- > s->one.data;) {
        lm_reader r = { s->one.data, s->one.size, (size_t)(at - s->one.data), true };
        size_t from;
        if (*at != '{' || lm_reader_json(&r, &from) != LM_READ_DONE || s->one.data + r.at < name)
            continue;
        json_t *object = json_loadb(at, r.at - from, 0, NULL);
        bool keyed = json_is_object(json_object_get(object, LM_PROBE_NAME)) && json_object_size(object) == 1;
        l->f.form = keyed ? LM_FORM_KEYED : LM_FORM_OBJECT;
        if (!keyed)
            find_keys(l, object);
        json_decref(object);
        if (!keyed && (!l->f.name_key || !l->f.arguments_key))
            return false;
        around(l, s, name, at, s->one.data + r.at);
        return true;
    }
    return false;
}

/* The name between marks, then the arguments as a JSON object. */
static bool learn_named(learned *l, const lm_shown *s, const char *name)
{
    const char *after = name + strlen(LM_PROBE_NAME), *at = strchr(after, '{'), *start = name;
    lm_reader r = { s->one.data, s->one.size, at ? (size_t)(at - s->one.data) : 0, true };
    size_t from;

    if (!at || lm_reader_json(&r, &from) != LM_READ_DONE)
        return false;
    lm_view end = part(after, at), middle = trim(end);
    const char *id = strstr(s->one.data, LM_PROBE_ID), *id_end = id ? id + strlen(LM_PROBE_ID) : NULL;
    if (id && id < name) {
        l->f.id_first = keep(l, part(id_end, name));
        start = id;
    } else if (id && id < at) {
        l->f.id_mark = keep(l, trim(part(after, id)));
        middle = trim(part(id_end, at));
    }
    l->f.form     = LM_FORM_NAMED;
    l->f.name_end = keep(l, middle.size ? middle : end);
    around(l, s, name, start, s->one.data + r.at);
    return l->f.name_end && (!id || id > at || l->f.id_first || l->f.id_mark);
}

/* f(a='x') */
static bool learn_python(learned *l, const lm_shown *s, const char *name)
{
    const char *end = strchr(name, ')');

    if (!end || name[strlen(LM_PROBE_NAME)] != '(')
        return false;
    l->f.form = LM_FORM_PYTHON;
    around(l, s, name, name, end + 1);
    return true;
}

/* The name, then each argument between marks. */
static bool learn_tagged(learned *l, const lm_shown *s, const char *name)
{
    static const char *const keys[] = LM_PROBE_KEYS;
    const char *after = name + strlen(LM_PROBE_NAME);
    const char *key = strstr(after, keys[0]), *next = strstr(after, keys[1]);
    const char *value = key ? strstr(key, "Old Town") : NULL, *last = next ? strchr(next, '7') : NULL;
    size_t open, close;

    if (!value || !last || value > next)
        return false;
    const char *key_end = key + strlen(keys[0]), *value_end = value + strlen("Old Town"),
               *end = s->one.data + s->one.size;
    lm_view head = part(after, key), between = part(value_end, next), tail = part(last + 1, end),
            mark = part(key_end, value);
    if (!lm_view_equal(mark, part(next + strlen(keys[1]), last)))
        return false;
    share(head, between, tail, &open, &close);
    lm_view argument_end = part(tail.data, tail.data + close);
    l->f.form      = LM_FORM_TAGGED;
    l->f.own_lines = mark.size && mark.data[mark.size - 1] == '\n' && close && tail.data[0] == '\n';
    l->f.name_end  = keep(l, trim(part(head.data, head.data + head.size - open)));
    l->f.argument.open  = keep(l, trim(part(key - open, key)));
    l->f.argument.close = keep(l, trim(argument_end));
    l->f.key_end        = keep(l, l->f.own_lines ? trim(mark) : mark);
    around(l, s, name, name, last + 1 + close);
    return l->f.argument.open && l->f.argument.close && l->f.key_end;
}

lm_answer_family *lm_shown_learn(const lm_shown *s)
{
    static bool (*const forms[])(learned *, const lm_shown *, const char *) = {
        learn_object, learn_python, learn_named, learn_tagged
    };
    const char *name = s->one.size ? strstr(s->one.data, LM_PROBE_NAME) : NULL;
    learned *l = name && s->one.size < MAX_SHOWN ? lm_alloc(sizeof *l) : NULL;

    for (size_t i = 0; l && i < sizeof forms / sizeof *forms; i++) {
        *l = (learned){ .f.name = "general" };
        if (forms[i](l, s, name) && !l->failed && lm_shown_is_read(&l->f, &s->one, 1, false) &&
            (!s->two.size || l->f.bare || lm_shown_is_read(&l->f, &s->two, 2, false)))
            return &l->f;
    }
    lm_free(l);
    return NULL;
}
