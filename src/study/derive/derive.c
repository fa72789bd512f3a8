/* derive.c - build derivations. */
#include "study/derive/derive.h"
#include "study/derive/expr_tree.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lm_derivation *lm_derivation_new(lm_facts *f, lm_error *e)
{
    lm_derivation *d = lm_arena_new(&f->arena, 1, lm_derivation);

    if (!d) {
        lm_fail_memory(e, "a derivation", sizeof *d);
        return NULL;
    }
    d->f = f;
    d->e = e;
    return d;
}

static void failed(lm_derivation *d, lm_status status)
{
    if (d->status == LM_OK)
        d->status = status;
}

const char *lm_derive_text(lm_derivation *d, const char *format, ...)
{
    va_list args;
    lm_text  b = { 0 };

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    const char *text = b.failed ? NULL : lm_arena_strdup(&d->f->arena, b.data ? b.data : "");
    lm_text_free(&b);
    if (!text)
        failed(d, lm_fail_memory(d->e, "a derivation", 0));
    return text ? text : "";
}

/* ---- symbols ---- */

static const lm_symbol *find(const lm_derivation *d, const char *name, size_t n)
{
    for (size_t i = 0; i < d->n_symbols; i++)
        if (strlen(d->symbols[i].name) == n && memcmp(d->symbols[i].name, name, n) == 0)
            return &d->symbols[i];
    return NULL;
}

static lm_symbol *look_up(void *arg, const char *name, size_t n)
{
    lm_derivation   *d = arg;
    const lm_symbol *s = find(d, name, n);

    return s ? &d->symbols[s - d->symbols] : NULL;
}

bool lm_has_symbol(const lm_derivation *d, const char *name)
{
    return find(d, name, strlen(name)) != NULL;
}

lm_symbol_value lm_derived(const lm_derivation *d, const char *name)
{
    const lm_symbol *s = find(d, name, strlen(name));

    return s ? s->value : lm_whole(0);
}

static lm_symbol *let(lm_derivation *d, const char *name, const char *latex, const char *meaning,
                      lm_symbol_value value)
{
    if (d->status != LM_OK || lm_has_symbol(d, name))
        return look_up(d, name, strlen(name));
    if (d->n_symbols == LM_MAX_SYMBOLS) {
        failed(d, lm_fail(d->e, LM_FAILED, name, LM_NO_OFFSET, "one quantity more than a derivation holds"));
        return NULL;
    }
    d->symbols[d->n_symbols] = (lm_symbol){ lm_derive_text(d, "%s", name), latex, meaning, value, false };
    return &d->symbols[d->n_symbols++];
}

static lm_symbol_value quantity_of(const lm_fact *x)
{
    return x->kind == LM_FACT_COUNT ? lm_whole(x->count) : lm_real(x->kind == LM_FACT_NUMBER ? x->number : 0);
}

void lm_let_fact(lm_derivation *d, const char *name, const char *latex, const char *meaning, const char *path)
{
    const lm_fact *x = NULL;

    if (d->status != LM_OK)
        return;
    if (lm_facts_find(d->f, path, &x, d->e) != LM_OK)
        failed(d, LM_FAILED);
    else if (x->kind == LM_FACT_COUNT || x->kind == LM_FACT_NUMBER)
        let(d, name, latex, meaning, quantity_of(x));
    else
        failed(d, lm_fail(d->e, LM_FAILED, path, LM_NO_OFFSET, "a formula needs a number here"));
}

void lm_let_count(lm_derivation *d, const char *name, const char *latex, const char *meaning, uint64_t n)
{
    let(d, name, latex, meaning, lm_whole(n));
}

void lm_let_number(lm_derivation *d, const char *name, const char *latex, const char *meaning, double x)
{
    let(d, name, latex, meaning, lm_real(x));
}

/* ---- steps ---- */

/* Compare with a fact: counts exactly, numbers with a tolerance because one side was computed in float. */
static bool equal(lm_symbol_value a, const lm_fact *x)
{
    lm_symbol_value b = quantity_of(x);

    if (x->kind == LM_FACT_COUNT)
        return a.whole && b.whole ? a.n == b.n : fabs(a.x - b.x) <= 1e-12 * fabs(b.x);
    return fabs(a.x - b.x) <= 1e-6 * fabs(b.x);
}

static lm_formula *new_step(lm_derivation *d)
{
    if (d->n_steps == LM_MAX_STEPS)
        failed(d, lm_fail(d->e, LM_FAILED, "derivation", LM_NO_OFFSET, "more steps than it holds"));
    return d->status == LM_OK ? &d->steps[d->n_steps++] : NULL;
}

static void mark_used(const lm_expr *x)
{
    if (x->kind == LM_X_SYMBOL)
        x->symbol->used = true;
    for (const lm_term *t = x->terms; t; t = t->next)
        mark_used(t->x);
}

bool lm_try_formula(lm_derivation *d, const char *formula, lm_symbol_value *out)
{
    const lm_expr *x = NULL;

    if (d->status != LM_OK || lm_expr_read(&d->f->arena, formula, look_up, d, &x, NULL) != LM_OK)
        return false;
    *out = lm_expr_value(x);
    return true;
}

void lm_derive(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path,
               const char *formula)
{
    const lm_expr *x = NULL;
    const lm_fact *fact = NULL;
    lm_formula       *s;

    if (d->status != LM_OK)
        return;
    failed(d, lm_expr_read(&d->f->arena, formula, look_up, d, &x, d->e));
    if (d->status == LM_OK && path)
        failed(d, lm_facts_find(d->f, path, &fact, d->e));
    if (d->status == LM_OK && fact && fact->kind == LM_FACT_NONE)
        fact = NULL;
    s = new_step(d);
    if (!s)
        return;
    mark_used(x);
    lm_symbol_value value = lm_expr_value(x);
    *s                = (lm_formula){ .title = title, .x = x, .unit = unit, .path = path, .fact = fact };
    s->symbol         = let(d, name, NULL, NULL, value);
    s->agrees         = !fact || equal(value, fact);
    if (s->symbol && s->symbol->meaning)
        failed(d, lm_fail(d->e, LM_FAILED, name, LM_NO_OFFSET, "is derived although it was given"));
}

void lm_derivef(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path,
                const char *format, ...)
{
    va_list args;
    lm_text  b = { 0 };

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    if (b.failed)
        failed(d, lm_fail_memory(d->e, "a formula", 0));
    else
        lm_derive(d, name, title, unit, path, b.data ? b.data : "");
    lm_text_free(&b);
}

void lm_derive_heading(lm_derivation *d, const char *format, ...)
{
    va_list args;
    lm_text  b = { 0 };
    lm_formula *s = new_step(d);

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    if (s)
        *s = (lm_formula){ .title = lm_derive_text(d, "%s", b.data ? b.data : ""),
                           .heading = true,
                           .agrees = true };
    lm_text_free(&b);
}
