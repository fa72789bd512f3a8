/* expr.c - parse and evaluate the expressions of expr.h.
 *
 * The parser descends recursively, one function per level of precedence: sum, product, power, atom. Sums and
 * products are flat lists of terms, so that they are written without parentheses. Values stay exact whole
 * numbers as long as they fit (lm_symbol_value). Memory is the caller's arena. */
#include "study/derive/expr_tree.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* ---- quantities ---- */

lm_symbol_value lm_whole(uint64_t n)
{
    return n <= INT64_MAX ? (lm_symbol_value){ true, (int64_t)n, (double)n } : lm_real((double)n);
}

lm_symbol_value lm_real(double x)
{
    /* every such double is exactly a whole number */
    bool whole = x == nearbyint(x) && fabs(x) < 9.0e15;

    return (lm_symbol_value){ whole, whole ? (int64_t)x : 0, x };
}

static lm_symbol_value exact(int64_t n)
{
    return (lm_symbol_value){ true, n, (double)n };
}

static lm_symbol_value added(lm_symbol_value a, lm_symbol_value b, int sign)
{
    int64_t n;

    if (a.whole && b.whole &&
        !(sign > 0 ? __builtin_add_overflow(a.n, b.n, &n) : __builtin_sub_overflow(a.n, b.n, &n)))
        return exact(n);
    return lm_real(a.x + sign * b.x);
}

static lm_symbol_value multiplied(lm_symbol_value a, lm_symbol_value b)
{
    int64_t n;

    return a.whole && b.whole && !__builtin_mul_overflow(a.n, b.n, &n) ? exact(n) : lm_real(a.x * b.x);
}

static lm_symbol_value divided(lm_symbol_value a, lm_symbol_value b)
{
    if (a.whole && b.whole && b.n != 0 && a.n % b.n == 0)
        return exact(a.n / b.n);
    return lm_real(a.x / b.x);
}

static lm_symbol_value raised(lm_symbol_value a, lm_symbol_value b)
{
    lm_symbol_value out = exact(1);

    if (!a.whole || !b.whole || b.n < 0 || b.n > 62)
        return lm_real(pow(a.x, b.x));
    for (int64_t i = 0; i < b.n; i++)
        out = multiplied(out, a);
    return out;
}

/* ---- parsing ---- */

typedef struct reader {
    lm_arena         *arena;
    const char       *text, *at;
    lm_symbol_lookup *lookup;
    void             *arg;
    lm_error         *e;
    lm_status         status;
    unsigned          depth;
} reader;

static const lm_expr *sum(reader *r);

static const lm_expr *fail(reader *r, const char *why)
{
    if (r->status == LM_OK)
        r->status = lm_fail(r->e, LM_FAILED, r->text, r->at - r->text, "%s", why);
    return NULL;
}

static lm_expr *new_expr(reader *r, lm_expr_kind kind)
{
    lm_expr *x = r->status == LM_OK ? lm_arena_new(r->arena, 1, lm_expr) : NULL;

    if (x)
        x->kind = kind;
    else if (r->status == LM_OK)
        r->status = lm_fail_memory(r->e, "a formula", sizeof *x);
    return x;
}

/* Append `x` as a term of `whole`, after `last`; return the new last term. */
static lm_term *add_term(reader *r, lm_expr *whole, lm_term *last, const lm_expr *x, bool inverse)
{
    lm_term *t = r->status == LM_OK ? lm_arena_new(r->arena, 1, lm_term) : NULL;

    if (!t) {
        if (r->status == LM_OK)
            r->status = lm_fail_memory(r->e, "a formula", sizeof *t);
        return last;
    }
    *t                                    = (lm_term){ x, inverse, NULL };
    *(last ? &last->next : &whole->terms) = t;
    return t;
}

static char next(reader *r)
{
    while (*r->at == ' ')
        r->at++;
    return *r->at;
}

static bool take(reader *r, char c)
{
    if (next(r) != c)
        return false;
    r->at++;
    return true;
}

static const lm_expr *number(reader *r)
{
    char              *end;
    unsigned long long n     = strtoull(r->at, &end, 10);
    bool               whole = *end != '.';
    double             d     = whole ? 0 : lm_read_double(r->at, &end);
    lm_expr           *x     = new_expr(r, LM_X_NUMBER);

    r->at = end;
    if (x)
        x->value = whole ? lm_whole(n) : lm_real(d);
    return x;
}

static const lm_expr *call(reader *r, const char *name, size_t n)
{
    static const struct {
        const char  *name;
        lm_expr_kind kind;
        int          arguments;
    } functions[] = { { "sqrt", LM_X_SQRT, 1 }, { "ln", LM_X_LN, 1 },       { "exp", LM_X_EXP, 1 },
                      { "sin", LM_X_SIN, 1 },   { "cos", LM_X_COS, 1 },     { "tanh", LM_X_TANH, 1 },
                      { "erf", LM_X_ERF, 1 },   { "floor", LM_X_FLOOR, 1 }, { "ceil", LM_X_CEIL, 1 },
                      { "min", LM_X_MIN, 2 },   { "max", LM_X_MAX, 2 } };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strlen(functions[i].name) != n || memcmp(functions[i].name, name, n) != 0)
            continue;
        lm_expr *x    = new_expr(r, functions[i].kind);
        lm_term *last = NULL;
        for (int k = 0; k < functions[i].arguments && r->status == LM_OK; k++) {
            if (k && !take(r, ','))
                return fail(r, "two arguments are wanted");
            last = add_term(r, x, last, sum(r), false);
        }
        return take(r, ')') ? x : fail(r, "a parenthesis is not closed");
    }
    return fail(r, "there is no such function");
}

static const lm_expr *name(reader *r)
{
    const char *from = r->at;

    while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.')
        r->at++;
    size_t n = (size_t)(r->at - from);
    if (take(r, '('))
        return call(r, from, n);
    lm_symbol *s = r->lookup(r->arg, from, n);
    lm_expr   *x = s ? new_expr(r, LM_X_SYMBOL) : NULL;
    if (!s) {
        r->at = from;
        return fail(r, "an unknown quantity");
    }
    if (x)
        x->symbol = s;
    return x;
}

static const lm_expr *atom(reader *r)
{
    const lm_expr *x;
    char           c = next(r);

    if (isdigit((unsigned char)c))
        return number(r);
    if (isalpha((unsigned char)c))
        return name(r);
    if (r->depth >= 64 || !take(r, '('))
        return fail(r, "a number or a name is wanted");
    r->depth++;
    x = sum(r);
    r->depth--;
    return take(r, ')') ? x : fail(r, "a parenthesis is not closed");
}

static const lm_expr *power(reader *r)
{
    const lm_expr *base = atom(r), *exponent;
    lm_expr       *x, *minus;

    if (r->status != LM_OK || !take(r, '^'))
        return base;
    x = new_expr(r, LM_X_POWER);
    if (take(r, '-')) {
        minus = new_expr(r, LM_X_SUM);
        if (minus)
            add_term(r, minus, NULL, atom(r), true);
        exponent = minus;
    } else {
        exponent = atom(r);
    }
    if (x && r->status == LM_OK)
        add_term(r, x, add_term(r, x, NULL, base, false), exponent, false);
    return x;
}

/* Parse a chain of `inner`, joined by `plain` or `inverse`; a single operand is returned as it is. */
static const lm_expr *chain(reader *r, lm_expr_kind kind, char plain, char inverse,
                            const lm_expr *(*inner)(reader *r))
{
    bool           minus = kind == LM_X_SUM && take(r, inverse);
    const lm_expr *first = inner(r);
    lm_expr       *x     = NULL;
    lm_term       *last  = NULL;

    if (minus && (x = new_expr(r, kind)))
        last = add_term(r, x, NULL, first, true);
    while (r->status == LM_OK) {
        bool divides = next(r) == inverse;
        if (!divides && next(r) != plain)
            break;
        r->at++;
        if (!x && (x = new_expr(r, kind)))
            last = add_term(r, x, NULL, first, false);
        const lm_expr *more = inner(r);
        if (x)
            last = add_term(r, x, last, more, divides);
    }
    return x ? x : first;
}

static const lm_expr *product(reader *r)
{
    return chain(r, LM_X_PRODUCT, '*', '/', power);
}

static const lm_expr *sum(reader *r)
{
    return chain(r, LM_X_SUM, '+', '-', product);
}

lm_status lm_expr_read(lm_arena *a, const char *text, lm_symbol_lookup *lookup, void *arg,
                       const lm_expr **out, lm_error *e)
{
    reader         r = { .arena = a, .text = text, .at = text, .lookup = lookup, .arg = arg, .e = e };
    const lm_expr *x = sum(&r);

    if (r.status == LM_OK && next(&r))
        fail(&r, "nothing should follow");
    if (r.status == LM_OK)
        *out = x;
    return r.status;
}

/* ---- values ---- */

/* Multiply all factors first, then divide: quotients stay whole if they can. */
static lm_symbol_value product_value(const lm_expr *x)
{
    lm_symbol_value out = exact(1);

    for (const lm_term *t = x->terms; t; t = t->next)
        out = t->inverse ? out : multiplied(out, lm_expr_value(t->x));
    for (const lm_term *t = x->terms; t; t = t->next)
        out = t->inverse ? divided(out, lm_expr_value(t->x)) : out;
    return out;
}

static double (*const functions[])(double) = {
    [LM_X_SQRT] = sqrt, [LM_X_LN] = log,   [LM_X_EXP] = exp,     [LM_X_SIN] = sin,   [LM_X_COS] = cos,
    [LM_X_TANH] = tanh, [LM_X_ERF] = erf,  [LM_X_FLOOR] = floor, [LM_X_CEIL] = ceil,
};

lm_symbol_value lm_expr_value(const lm_expr *x)
{
    lm_symbol_value a, b;

    switch (x->kind) {
    case LM_X_NUMBER:
        return x->value;
    case LM_X_SYMBOL:
        return x->symbol->value;
    case LM_X_PRODUCT:
        return product_value(x);
    case LM_X_SUM:
        a = exact(0);
        for (const lm_term *t = x->terms; t; t = t->next)
            a = added(a, lm_expr_value(t->x), t->inverse ? -1 : 1);
        return a;
    case LM_X_POWER:
        return raised(lm_expr_value(x->terms->x), lm_expr_value(x->terms->next->x));
    case LM_X_MIN:
    case LM_X_MAX:
        a = lm_expr_value(x->terms->x);
        b = lm_expr_value(x->terms->next->x);
        return (x->kind == LM_X_MIN ? a.x <= b.x : a.x >= b.x) ? a : b;
    default:
        return lm_real(functions[x->kind](lm_expr_value(x->terms->x).x));
    }
}

bool lm_expr_is_number(const lm_expr *x)
{
    return x->kind == LM_X_NUMBER || x->kind == LM_X_SYMBOL;
}

const lm_expr *lm_expr_fold(lm_arena *a, const lm_expr *x)
{
    bool     numbers = true;
    lm_expr *n       = lm_arena_new(a, 1, lm_expr);
    lm_term *last    = NULL;

    for (const lm_term *t = x->terms; t; t = t->next)
        numbers &= lm_expr_is_number(t->x);
    if (!n)
        return x;
    *n = (lm_expr){ .kind = LM_X_NUMBER, .value = numbers ? lm_expr_value(x) : exact(0) };
    if (numbers)
        return n;
    n->kind = x->kind;
    for (const lm_term *t = x->terms; t; t = t->next) {
        lm_term *copy = lm_arena_new(a, 1, lm_term);
        if (!copy)
            return x;
        *copy                             = (lm_term){ lm_expr_fold(a, t->x), t->inverse, NULL };
        *(last ? &last->next : &n->terms) = copy;
        last                              = copy;
    }
    return n;
}
