/* fact.c - build and traverse the tree of facts. */
#include "study/facts/fact.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/facts/ledger.h"
#include "base/alloc.h"
#include "base/number.h"
#include "base/utf8.h"

/* ---- names ---- */

const char *lm_unit_name(lm_unit u)
{
    static const char *const names[] = {
#define X(name, word) word,
        LM_UNIT_LIST(X)
#undef X
    };
    return (unsigned)u < LM_UNITS ? names[u] : "";
}

const char *lm_origin_name(lm_origin o)
{
    static const char *const names[] = {
#define X(name, word) word,
        LM_ORIGIN_LIST(X)
#undef X
    };
    return (unsigned)o < LM_ORIGINS ? names[o] : "";
}

/* ---- adding facts ---- */

static bool is_list(const lm_fact *x)
{
    return x->kind == LM_FACT_LIST || x->kind == LM_FACT_TABLE;
}

static lm_fact *add(lm_fact *group, const char *name, lm_fact_kind kind, lm_unit u, lm_origin o,
                    const char *how)
{
    lm_facts *f = group->impl.owner;
    lm_fact  *x = lm_arena_new(&f->arena, 1, lm_fact);

    if (!x) {
        f->failed        = true;
        f->nowhere       = (lm_fact){ .kind = LM_FACT_NONE };
        f->nowhere.impl.owner = f;
        return &f->nowhere;
    }
    x->name        = name;
    x->index       = group->size;
    x->kind        = kind;
    x->unit        = u;
    x->origin      = o;
    x->how         = how;
    x->impl.owner  = f;
    x->impl.parent = group;
    if (group->impl.last)
        group->impl.last->impl.next = x;
    else
        group->impl.first = x;
    group->impl.last = x;
    group->size++;
    return x;
}

lm_fact *lm_add_count(lm_fact *group, const char *name, uint64_t n, lm_unit u, lm_origin o, const char *how)
{
    lm_fact *x = add(group, name, LM_FACT_COUNT, u, o, how);

    x->count = n;
    return x;
}

lm_fact *lm_add_number(lm_fact *group, const char *name, double number, lm_unit u, lm_origin o,
                       const char *how)
{
    lm_fact *x = add(group, name, LM_FACT_NUMBER, u, o, how);

    x->number = number;
    return x;
}

lm_fact *lm_add_wide(lm_fact *group, const char *name, lm_wide n, lm_unit u, lm_origin o, const char *how)
{
    return n <= INT64_MAX ? lm_add_count(group, name, (uint64_t)n, u, o, how)
                          : lm_add_number(group, name, (double)n, u, o, how);
}

/* Files may contain any bytes; facts are UTF-8. */
const char *lm_facts_strndup(lm_facts *f, const char *text, size_t n)
{
    const char *kept;
    lm_text      b = { 0 };

    if (lm_utf8_valid_prefix(text, n) == n) {
        kept = lm_arena_strndup(&f->arena, text, n);
    } else {
        lm_text_add_utf8(&b, text, n);
        kept = b.failed ? NULL : lm_arena_strndup(&f->arena, b.data, b.size);
        lm_text_free(&b);
    }
    f->failed |= !kept;
    return kept ? kept : "";
}

lm_fact *lm_add_text(lm_fact *group, const char *name, const char *text, lm_origin o, const char *how)
{
    lm_facts *f = group->impl.owner;
    lm_fact  *x = add(group, name, LM_FACT_TEXT, LM_UNIT_NONE, o, how);

    x->text = lm_facts_strndup(f, text ? text : "", text ? strlen(text) : 0);
    return x;
}

lm_fact *lm_add_word(lm_fact *group, const char *name, lm_word w, lm_origin o, const char *how)
{
    lm_fact *x = lm_add_text(group, name, w.text, o, how);

    x->id = w.id;
    return x;
}

lm_fact *lm_add_textf(lm_fact *group, const char *name, lm_origin o, const char *format, ...)
{
    lm_text   b = { 0 };
    va_list  args;

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    lm_fact *x = lm_add_text(group, name, b.data, o, NULL);
    group->impl.owner->failed |= b.failed;
    lm_text_free(&b);
    return x;
}

lm_fact *lm_add_bool(lm_fact *group, const char *name, bool truth, lm_origin o, const char *how)
{
    lm_fact *x = add(group, name, LM_FACT_BOOL, LM_UNIT_NONE, o, how);

    x->truth = truth;
    return x;
}

lm_fact *lm_add_none(lm_fact *group, const char *name, const char *how)
{
    return add(group, name, LM_FACT_NONE, LM_UNIT_NONE, LM_FROM_PROGRAM, how);
}

static lm_fact *add_holder(lm_fact *group, const char *name, lm_fact_kind kind, lm_fill *fill,
                           uint64_t argument)
{
    lm_fact *x = add(group, name, kind, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);

    x->impl.fill     = fill;
    x->impl.argument = argument;
    return x;
}

lm_fact *lm_add_group(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return add_holder(group, name, LM_FACT_GROUP, fill, argument);
}

lm_fact *lm_add_list(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return add_holder(group, name, LM_FACT_LIST, fill, argument);
}

lm_fact *lm_add_table(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return add_holder(group, name, LM_FACT_TABLE, fill, argument);
}

lm_fact *lm_hide_fact(lm_fact *x)
{
    x->impl.silent = true;
    return x;
}

/* ---- traversal ---- */

/* Facts are filled on first access although the reader holds a const pointer: to the reader, the tree was
 * always complete. */
static lm_fact *writable(const lm_fact *x)
{
    return (lm_fact *)(uintptr_t)x;                      /* for caches, as above */
}

static void look_into(const lm_fact *group)
{
    lm_fact *x    = writable(group);
    lm_fill *fill = x->kind == LM_FACT_GROUP || x->kind == LM_FACT_LIST ? x->impl.fill : NULL;

    if (!fill)
        return;
    x->impl.fill = NULL;         /* cleared first: filling may look up the group's own path */
    lm_language before = lm_language_set(LM_ENGLISH);    /* facts are data, independent of the reader's
                                                            language */
    fill(x->impl.owner, x);
    lm_language_set(before);
}

const lm_fact *lm_fact_first(const lm_fact *group)
{
    if (!group || group->kind < LM_FACT_GROUP || group->kind == LM_FACT_TABLE)
        return NULL;
    look_into(group);
    return group->impl.first;
}

const lm_fact *lm_fact_next(const lm_fact *x)
{
    return x ? x->impl.next : NULL;
}

const lm_fact *lm_fact_member(const lm_fact *group, const char *name, size_t n)
{
    for (const lm_fact *x = lm_fact_first(group); x; x = x->impl.next)
        if (x->name && strlen(x->name) == n && memcmp(x->name, name, n) == 0)
            return x;
    return NULL;
}

const lm_fact *lm_fact_item(const lm_fact *list, uint64_t index)
{
    if (!is_list(list))
        return NULL;
    look_into(list);
    for (const lm_fact *x = list->impl.first; x; x = x->impl.next)
        if (x->index == index)
            return x;
    if (list->kind != LM_FACT_TABLE || index > LM_MAX_POSITIONS)
        return NULL;
    lm_fact *x = add_holder(writable(list), NULL, LM_FACT_GROUP, list->impl.fill, list->impl.argument);
    x->index   = index;
    return x;
}

static void add_path(const lm_fact *x, size_t begin, lm_text *out)
{
    if (!x->impl.parent)
        return;
    add_path(x->impl.parent, begin, out);
    if (x->name && out->size > begin)
        lm_text_add_char(out, '.');
    if (x->name)
        lm_text_add_str(out, x->name);
    else
        lm_text_printf(out, "[%" PRIu64 "]", x->index);
}

void lm_fact_path(const lm_fact *x, lm_text *out)
{
    if (!x || !out)
        return;
    add_path(x, out->size, out);
}
