/* fact.c - the tree: growing, walking, asking. */
#include "analysis/fact.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger.h"
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

/* ---- saying ---- */

static bool is_list(const lm_fact *x)
{
    return x->kind == LM_FACT_LIST || x->kind == LM_FACT_TABLE;
}

static lm_fact *say(lm_fact *group, const char *name, lm_fact_kind kind, lm_unit u, lm_origin o, const char *how)
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

lm_fact *lm_say_count(lm_fact *group, const char *name, uint64_t n, lm_unit u, lm_origin o, const char *how)
{
    lm_fact *x = say(group, name, LM_FACT_COUNT, u, o, how);

    x->count = n;
    return x;
}

lm_fact *lm_say_number(lm_fact *group, const char *name, double number, lm_unit u, lm_origin o, const char *how)
{
    lm_fact *x = say(group, name, LM_FACT_NUMBER, u, o, how);

    x->number = number;
    return x;
}

lm_fact *lm_say_wide(lm_fact *group, const char *name, lm_wide n, lm_unit u, lm_origin o, const char *how)
{
    return n <= INT64_MAX ? lm_say_count(group, name, (uint64_t)n, u, o, how) : lm_say_number(group, name, (double)n, u, o, how);
}

/* Files may hold anything; facts are UTF-8. */
const char *lm_keep_text(lm_facts *f, const char *text, size_t n)
{
    const char *kept;
    lm_buf      b = { 0 };

    if (lm_utf8_valid_prefix(text, n) == n) {
        kept = lm_arena_strndup(&f->arena, text, n);
    } else {
        lm_utf8_repair(&b, text, n);
        kept = b.failed ? NULL : lm_arena_strndup(&f->arena, b.data, b.size);
        lm_buf_free(&b);
    }
    f->failed |= !kept;
    return kept ? kept : "";
}

lm_fact *lm_say_text(lm_fact *group, const char *name, const char *text, lm_origin o, const char *how)
{
    lm_facts *f = group->impl.owner;
    lm_fact  *x = say(group, name, LM_FACT_TEXT, LM_UNIT_NONE, o, how);

    x->text = lm_keep_text(f, text ? text : "", text ? strlen(text) : 0);
    return x;
}

lm_fact *lm_say_textf(lm_fact *group, const char *name, lm_origin o, const char *format, ...)
{
    lm_buf   b = { 0 };
    va_list  args;

    va_start(args, format);
    lm_buf_vprintf(&b, format, args);
    va_end(args);
    lm_fact *x = lm_say_text(group, name, b.data, o, NULL);
    group->impl.owner->failed |= b.failed;
    lm_buf_free(&b);
    return x;
}

lm_fact *lm_say_bool(lm_fact *group, const char *name, bool truth, lm_origin o, const char *how)
{
    lm_fact *x = say(group, name, LM_FACT_BOOL, LM_UNIT_NONE, o, how);

    x->truth = truth;
    return x;
}

lm_fact *lm_say_none(lm_fact *group, const char *name, const char *how)
{
    return say(group, name, LM_FACT_NONE, LM_UNIT_NONE, LM_FROM_PROGRAM, how);
}

static lm_fact *say_holder(lm_fact *group, const char *name, lm_fact_kind kind, lm_fill *fill, uint64_t argument)
{
    lm_fact *x = say(group, name, kind, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);

    x->impl.fill     = fill;
    x->impl.argument = argument;
    return x;
}

lm_fact *lm_say_group(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return say_holder(group, name, LM_FACT_GROUP, fill, argument);
}

lm_fact *lm_say_list(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return say_holder(group, name, LM_FACT_LIST, fill, argument);
}

lm_fact *lm_say_table(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument)
{
    return say_holder(group, name, LM_FACT_TABLE, fill, argument);
}

lm_fact *lm_keep_silent(lm_fact *x)
{
    x->impl.silent = true;
    return x;
}

/* ---- walking ---- */

/* Facts are written while their reader holds a const pointer: to him the tree was always whole. */
static lm_fact *writable(const lm_fact *x)
{
    return (lm_fact *)(uintptr_t)x;
}

static void look_into(const lm_fact *group)
{
    lm_fact *x    = writable(group);
    lm_fill *fill = x->kind == LM_FACT_GROUP || x->kind == LM_FACT_LIST ? x->impl.fill : NULL;

    if (!fill)
        return;
    x->impl.fill = NULL;         /* before: a group may look at its own path */
    lm_language before = lm_language_set(LM_ENGLISH);    /* facts are data, whoever asks for them */
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
    return x->impl.next;
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
    if (list->kind != LM_FACT_TABLE || index > LM_MOST_POSITIONS)
        return NULL;
    lm_fact *x = say_holder(writable(list), NULL, LM_FACT_GROUP, list->impl.fill, list->impl.argument);
    x->index   = index;
    return x;
}

static void add_path(const lm_fact *x, lm_buf *out)
{
    if (!x->impl.parent)
        return;
    add_path(x->impl.parent, out);
    if (x->name && out->size)
        lm_buf_add_char(out, '.');
    if (x->name)
        lm_buf_add_str(out, x->name);
    else
        lm_buf_printf(out, "[%" PRIu64 "]", x->index);
}

void lm_fact_path(const lm_fact *x, lm_text *out)
{
    lm_buf b = { out->data, out->n, out->capacity, false };

    add_path(x, &b);
    *out = (lm_text){ b.data, b.size, b.capacity };
}

/* ---- the tree ---- */

static lm_status fill_root(lm_facts *f, lm_error *e)
{
    static const struct {
        const char *name;
        lm_fill    *fill;
    } groups[] = {
        { "model", lm_fill_model },           { "config", lm_fill_config },       { "architecture", lm_fill_architecture },
        { "attention", lm_fill_attention },   { "mlp", lm_fill_mlp },             { "parameters", lm_fill_parameters },
        { "weights", lm_fill_weights },       { "kv", lm_fill_kv },               { "flops", lm_fill_flops },
        { "pass", lm_fill_pass },             { "memory", lm_fill_memory },       { "rope", lm_fill_rope },
        { "tuning", lm_fill_tuning },         { "speed", lm_fill_speed },         { "formulas", lm_fill_formulas },
        { "flow", lm_fill_flow },             { "what_if", lm_fill_what_if },     { "estimate", lm_fill_estimate },
    };

    f->root.kind       = LM_FACT_GROUP;
    f->root.impl.owner = f;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        lm_say_group(&f->root, groups[i].name, groups[i].fill, 0);
    lm_keep_silent(lm_say_group(&f->root, "catalogue", lm_fill_catalogue, 0));
    lm_keep_silent(lm_say_list(&f->root, "layers", lm_fill_layers, 0));
    lm_say_list(&f->root, "modules", lm_fill_modules, 0)->impl.key = "layers";   /* scripts know it by that name */
    lm_say_list(&f->root, "warnings", lm_fill_warnings, 0);
    return f->failed ? lm_fail_memory(e, "facts", 0) : LM_OK;
}

lm_status lm_facts_of(const lm_subject *s, lm_facts **out, lm_error *e)
{
    lm_facts *f = lm_alloc_zero(1, sizeof *f);

    if (!f)
        return lm_fail_memory(e, "facts", sizeof *f);
    f->s             = *s;
    f->s.release     = NULL;     /* whoever made the subject keeps it until this has succeeded */
    lm_status status = lm_ledger_new(s->program, &f->ledger, e);
    if (status == LM_OK)
        status = fill_root(f, e);
    if (status != LM_OK) {
        lm_facts_free(f);
        return status;
    }
    f->s.release = s->release;
    *out         = f;
    return LM_OK;
}

void lm_facts_free(lm_facts *f)
{
    if (!f)
        return;
    if (f->s.release)
        f->s.release(f->s.arg);
    lm_ledger_free(f->ledger);
    lm_arena_free(&f->arena);
    lm_free(f);
}

const lm_fact *lm_facts_root(lm_facts *f)
{
    return &f->root;
}

/* ---- values by path ---- */

static const lm_fact *ask(lm_facts *f, const char *path, va_list args)
{
    const lm_fact *x = NULL;
    lm_buf         b = { 0 };

    lm_buf_vprintf(&b, path, args);
    if (!b.failed && lm_facts_find(f, b.data, &x, NULL) != LM_OK && !f->missing[0])
        snprintf(f->missing, sizeof f->missing, "%s", b.data);
    f->failed |= b.failed;
    lm_buf_free(&b);
    return x;
}

#define ASK(x)                       \
    va_list args;                    \
    va_start(args, path);            \
    const lm_fact *x = ask(f, path, args); \
    va_end(args)

uint64_t lm_facts_count(lm_facts *f, const char *path, ...)
{
    ASK(x);
    if (!x)
        return 0;
    if (x->kind == LM_FACT_NUMBER && x->number >= 0x1p63)
        return UINT64_MAX;
    return x->kind == LM_FACT_COUNT || x->kind >= LM_FACT_GROUP ? (lm_fact_first(x), x->count) : 0;
}

double lm_facts_number(lm_facts *f, const char *path, ...)
{
    ASK(x);
    return !x ? 0 : x->kind == LM_FACT_NUMBER ? x->number : x->kind == LM_FACT_COUNT ? (double)x->count : 0;
}

const char *lm_facts_text(lm_facts *f, const char *path, ...)
{
    ASK(x);
    return x && x->kind == LM_FACT_TEXT ? x->text : "";
}

bool lm_facts_truth(lm_facts *f, const char *path, ...)
{
    ASK(x);
    return x && x->kind == LM_FACT_BOOL && x->truth;
}

bool lm_facts_has(lm_facts *f, const char *path, ...)
{
    char missing[sizeof f->missing];

    memcpy(missing, f->missing, sizeof missing);
    ASK(x);
    memcpy(f->missing, missing, sizeof missing);
    return x && x->kind != LM_FACT_NONE;
}

lm_status lm_facts_check(const lm_facts *f, lm_error *e)
{
    if (f->failed)
        return lm_fail_memory(e, "facts", 0);
    if (f->missing[0])
        return lm_fail(e, LM_NOT_FOUND, f->missing, LM_NO_OFFSET, "a view asks for a fact that nobody says");
    return LM_OK;
}

/* ---- numbers ---- */

double lm_decimal(float x)
{
    char text[32];

    for (int digits = 6; digits < 10; digits++) {
        lm_print(text, sizeof text, "%.*g", digits, (double)x);
        if (lm_read_float(text, NULL) == x)
            break;
    }
    return lm_read_double(text, NULL);
}

const char *lm_number_text(char out[32], double x)
{
    for (int digits = 6; digits < 18; digits++) {
        lm_print(out, 32, "%.*g", digits, x);
        if (lm_read_double(out, NULL) == x)
            break;
    }
    return out;
}
