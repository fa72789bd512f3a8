/* fact_ask.c - values by path, for code that knows the type it expects. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "base/error.h"

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
