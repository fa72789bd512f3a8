/* find.c - look up facts by path, and their values for code that knows the type it expects. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "base/error.h"

/* One element of a path: "name", "[12]", or a bare number as in module paths. The caller skips the dots
 * between. */
typedef struct step { const char *at; size_t n; bool number; uint64_t index; } step;

static bool next_step(const char **path, step *out)
{
    const char *p = *path;
    char       *end;

    *out = (step){ .at = p };
    if (*p == '[') {
        if (p[1] < '0' || p[1] > '9')
            return false;
        errno       = 0;
        out->number = true;
        out->index  = strtoull(p + 1, &end, 10);
        if (errno || *end != ']')
            return false;
        p = end + 1;
    } else {
        p += strcspn(p, ".[");
    }
    out->n = (size_t)(p - out->at);
    if (!out->n)
        return false;
    if (*p == '.')
        p++;
    *path = p;
    return p[-1] != '.' || *p;
}

/* ---- error messages ---- */

enum { NEAREST = 5 };

static void nearest_names(const lm_fact *group, const step *s, lm_text *out)
{
    const char *names[NEAREST] = { 0 };
    size_t      far[NEAREST]   = { 0 }, n = 0;
    char        wanted[64];

    snprintf(wanted, sizeof wanted, "%.*s", (int)(s->n < 63 ? s->n : 63), s->at);
    for (const lm_fact *x = lm_fact_first(group); x; x = lm_fact_next(x)) {
        if (!x->name || strlen(x->name) > 63)
            continue;
        size_t d = strstr(x->name, wanted) || strstr(wanted, x->name) ? 0 : lm_edit_distance(x->name, wanted),
               i = n;
        for (; i > 0 && far[i - 1] > d; i--)
            if (i < NEAREST) {
                far[i]   = far[i - 1];
                names[i] = names[i - 1];
            }
        if (i < NEAREST) {
            far[i]   = d;
            names[i] = x->name;
            n += n < NEAREST;
        }
    }
    for (size_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%s", i ? ", " : "", names[i]);
}

static lm_status not_found(const char *path, const lm_fact *group, const step *s, lm_error *e)
{
    lm_text    near = { 0 }, where = { 0 };
    lm_status status = LM_NOT_FOUND;

    lm_text t = { 0 };
    lm_fact_path(group, &t);
    lm_text_printf(&where, "%s", t.size ? t.data : "the facts of a model");
    lm_text_free(&t);
    if (group->kind < LM_FACT_GROUP)
        lm_fail(e, LM_NOT_FOUND, path, LM_NO_OFFSET, "%s has no parts", where.data ? where.data : "it");
    else if (group->kind == LM_FACT_LIST && (lm_fact_first(group), true))
        lm_fail(e, LM_NOT_FOUND, path, LM_NO_OFFSET, "%s has items [0] to [%" PRIu64 "]",
                where.data ? where.data : "it", group->size ? group->size - 1 : 0);
    else if (group->kind == LM_FACT_TABLE && s->number)
        status = lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "%s goes up to [%" PRIu32 "]",
                         where.data ? where.data : "it", LM_MAX_POSITIONS);
    else if (group->kind == LM_FACT_TABLE)
        lm_fail(e, LM_NOT_FOUND, path, LM_NO_OFFSET, "%s wants a number: [4096]",
                where.data ? where.data : "it");
    else {
        nearest_names(group, s, &near);
        lm_fail(e, LM_NOT_FOUND, path, LM_NO_OFFSET, "there is no \"%.*s\" in %s; the nearest: %s",
                (int)(s->n < 60 ? s->n : 60), s->at,
                where.data ? where.data : "it", near.data ? near.data : "none");
    }
    lm_text_free(&near);
    lm_text_free(&where);
    return status;
}

/* ---- path traversal ---- */

static const lm_fact *step_into(const lm_fact *group, const step *s)
{
    if (s->number)
        return lm_fact_item(group, s->index);
    return lm_fact_member(group, s->at, s->n);
}

static const lm_fact *walk(const lm_fact *from, const char *path, const lm_fact **deepest, step *failed)
{
    const lm_fact *x = from;

    *deepest = from;
    while (*path) {
        step s;
        bool good = next_step(&path, &s);
        const lm_fact *to = good ? step_into(x, &s) : NULL;
        if (!to) {
            *failed = s;
            return NULL;
        }
        *deepest = x = to;
    }
    return x;
}

/* "model.layers.3.self_attn.q_proj.shape": take the longest prefix that is a module's path, then a fact of
 * that module. */
static const lm_fact *walk_module(lm_facts *f, const char *path, const lm_fact **deepest, step *failed)
{
    uint32_t best = LM_NONE;
    size_t   max = 0;

    for (uint32_t m = 0; m < f->s.program->n_modules; m++) {
        size_t n = strlen(f->s.program->modules[m].path);
        if (n > max && strncmp(path, f->s.program->modules[m].path, n) == 0 &&
            (path[n] == '\0' || path[n] == '.' || path[n] == '[')) {
            best = m;
            max = n;
        }
    }
    if (best == LM_NONE)
        return NULL;
    const lm_fact *module = lm_fact_item(lm_fact_member(&f->root, "modules", 7), best);
    return module ? walk(module, path + max + (path[max] == '.'), deepest, failed) : NULL;
}

lm_status lm_facts_find(lm_facts *f, const char *path, const lm_fact **out, lm_error *e)
{
    LM_REQUIRE(e, f && path && out);
    const lm_fact *deepest, *other = NULL;
    step           failed = { 0 }, failed_there = { 0 };
    const lm_fact *x = *path ? walk(&f->root, path, &deepest, &failed) : NULL;

    if (!*path)
        return lm_fail(e, LM_NOT_FOUND, "query", LM_NO_OFFSET, "an empty path names nothing");
    if (!x)
        x = walk_module(f, path, &other, &failed_there);
    if (f->failed)
        return lm_fail_memory(e, "facts", 0);
    if (!x)
        return other ? not_found(path, other, &failed_there, e) : not_found(path, deepest, &failed, e);
    *out = x;
    return LM_OK;
}

/* ---- values by path ---- */

static const lm_fact *ask(lm_facts *f, const char *path)
{
    const lm_fact *x = NULL;

    if (lm_facts_find(f, path, &x, NULL) != LM_OK && f && path && !f->missing[0])
        snprintf(f->missing, sizeof f->missing, "%s", path);
    return x;
}

uint64_t lm_facts_count_at(lm_facts *f, const char *path)
{
    const lm_fact *x = ask(f, path);

    if (!x)
        return 0;
    if (x->kind == LM_FACT_NUMBER && x->number >= 0x1p63)
        return UINT64_MAX;
    return x->kind == LM_FACT_COUNT || x->kind >= LM_FACT_GROUP ? (lm_fact_first(x), x->count) : 0;
}

double lm_facts_number_at(lm_facts *f, const char *path)
{
    const lm_fact *x = ask(f, path);

    return !x ? 0 : x->kind == LM_FACT_NUMBER ? x->number : x->kind == LM_FACT_COUNT ? (double)x->count : 0;
}

const char *lm_facts_text_at(lm_facts *f, const char *path)
{
    const lm_fact *x = ask(f, path);

    return x && x->kind == LM_FACT_TEXT ? x->text : "";
}

bool lm_facts_truth_at(lm_facts *f, const char *path)
{
    const lm_fact *x = ask(f, path);

    return x && x->kind == LM_FACT_BOOL && x->truth;
}

bool lm_facts_has_at(lm_facts *f, const char *path)
{
    const lm_fact *x = NULL;

    return lm_facts_find(f, path, &x, NULL) == LM_OK && x->kind != LM_FACT_NONE;
}

/* The same with a formatted path. */
#define ASKED(type, name)                                     \
    type name(lm_facts *f, const char *path, ...)             \
    {                                                         \
        lm_text  whole = { 0 };                                \
        va_list args;                                         \
        type    x = 0;                                        \
                                                              \
        va_start(args, path);                                 \
        if (path)                                             \
            lm_text_vprintf(&whole, path, args);               \
        va_end(args);                                         \
        if (f && whole.failed)                                \
            f->failed = true;                                 \
        else                                                  \
            x = name##_at(f, whole.data);                     \
        lm_text_free(&whole);                                  \
        return x;                                             \
    }
ASKED(uint64_t, lm_facts_count)
ASKED(double, lm_facts_number)
ASKED(bool, lm_facts_truth)
ASKED(bool, lm_facts_has)

const char *lm_facts_text(lm_facts *f, const char *path, ...)
{
    lm_text      whole = { 0 };
    va_list     args;
    const char *x = "";

    va_start(args, path);
    if (path)
        lm_text_vprintf(&whole, path, args);
    va_end(args);
    if (f && whole.failed)
        f->failed = true;
    else
        x = lm_facts_text_at(f, whole.data);
    lm_text_free(&whole);
    return x;
}

void lm_fact_describe(const lm_fact *x, lm_fact_info *out)
{
    if (!out)
        return;
    *out = (lm_fact_info){ 0 };
    if (!x)
        return;
    lm_fact_first(x);
    *out = (lm_fact_info){ .name = x->name,
                           .index = x->index,
                           .kind = x->kind,
                           .unit = x->unit,
                           .origin = x->origin,
                           .how = x->how };
    switch (x->kind) {
    case LM_FACT_NONE:
        break;
    case LM_FACT_BOOL:
        out->truth = x->truth;
        break;
    case LM_FACT_NUMBER:
        out->number = x->number;
        break;
    case LM_FACT_TEXT:
        out->text = x->text;
        out->id   = x->id;
        break;
    default:
        out->count  = x->count;
        out->number = (double)x->count;
    }
}

lm_status lm_facts_check(const lm_facts *f, lm_error *e)
{
    LM_REQUIRE(e, f);
    if (f->failed)
        return lm_fail_memory(e, "facts", 0);
    if (f->missing[0])
        return lm_fail(e, LM_NOT_FOUND, f->missing, LM_NO_OFFSET, "no such fact");
    return LM_OK;
}
