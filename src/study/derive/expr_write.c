/* expr_write.c - write expressions for readers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/expr_tree.h"
#include "base/number.h"

/* ---- quantities ---- */

static void write_whole(int64_t n, lm_notation notation, lm_text *out)
{
    char digits[24];
    int  length = snprintf(digits, sizeof digits, "%" PRIu64, n < 0 ? -(uint64_t)n : (uint64_t)n);

    lm_text_add_str(out, n < 0 ? notation == LM_UNICODE ? "−" : "-" : "");
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            lm_text_add_str(out, notation == LM_LATEX ? "{,}" : ",");
        lm_text_add_char(out, digits[i]);
    }
}

static void raise_digits(const char *digits, lm_text *out)
{
    static const char *const raised[] = { "⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" };

    for (; *digits; digits++)
        lm_text_add_str(out, *digits == '-'                     ? "⁻"
                             : *digits >= '0' && *digits <= '9' ? raised[*digits - '0']
                                                                : "");
}

/* Write six significant digits, with a power of ten if plain digits would be unreadable. */
static void write_real(double x, lm_notation notation, lm_text *out)
{
    char  text[48];
    char *e;

    lm_text_add_str(out, x < 0 ? notation == LM_UNICODE ? "−" : "-" : "");
    x = fabs(x);
    lm_print(text, sizeof text, x >= 1e4 && x < 1e15 ? "%.1f" : "%.6g", x);
    e = strchr(text, 'e');
    if (!e) {
        lm_text_add_str(out, text);
        return;
    }
    *e = '\0';
    int exponent = 0;
    for (const char *d = e + 2; *d; d++)
        exponent = 10 * exponent + (*d - '0');
    char digits[16];
    snprintf(digits, sizeof digits, "%s%d", e[1] == '-' ? "-" : "", exponent);
    if (notation == LM_LATEX) {
        lm_text_printf(out, "%s \\cdot 10^{%s}", text, digits);
    } else if (notation == LM_UNICODE) {
        lm_text_printf(out, "%s·10", text);
        raise_digits(digits, out);
    } else {
        lm_text_printf(out, "%se%s", text, digits);
    }
}

void lm_quantity_write(lm_symbol_value q, lm_notation notation, lm_text *out)
{
    if (q.whole)
        write_whole(q.n, notation, out);
    else
        write_real(q.x, notation, out);
}

void lm_symbol_write(const lm_symbol *s, lm_notation notation, lm_text *out)
{
    if (notation != LM_LATEX) {
        lm_text_add_str(out, s->name);
        return;
    }
    if (s->latex) {
        lm_text_add_str(out, s->latex);
        return;
    }
    lm_text_add_str(out, "\\mathrm{");
    for (const char *p = s->name; *p; p++) {
        if (*p == '_')
            lm_text_add_str(out, "\\");
        lm_text_add_char(out, *p);
    }
    lm_text_add_str(out, "}");
}

/* ---- expressions ---- */

typedef struct writer {
    lm_notation notation;
    bool        numbers;
    lm_text     *out;
} writer;

static void write_expr(const writer *w, const lm_expr *x);

static void write_grouped(const writer *w, const lm_expr *x, bool grouped)
{
    const char *open = w->notation == LM_LATEX ? "\\left(" : "(",
               *close = w->notation == LM_LATEX ? "\\right)" : ")";

    lm_text_add_str(w->out, grouped ? open : "");
    write_expr(w, x);
    lm_text_add_str(w->out, grouped ? close : "");
}

static unsigned count_inverse(const lm_expr *x)
{
    unsigned n = 0;

    for (const lm_term *t = x->terms; t; t = t->next)
        n += t->inverse;
    return n;
}

/* Return whether the expression is a number or name that never needs parentheses; 1·10¹⁶ is a product. */
static bool stands_alone(const writer *w, const lm_expr *x)
{
    lm_text text = { 0 };

    if (!lm_expr_is_number(x) || (x->kind == LM_X_SYMBOL && !w->numbers) || w->notation == LM_ASCII)
        return lm_expr_is_number(x);
    lm_quantity_write(lm_expr_value(x), LM_ASCII, &text);
    bool power = text.size && strchr(text.data, 'e');
    lm_text_free(&text);
    return !power;
}

/* Write the factors above or below the fraction line, with dots between; a sum needs parentheses if there are
 * other factors. */
static void write_factors(const writer *w, const lm_expr *x, bool inverse)
{
    static const char *const dots[] = { [LM_UNICODE] = " · ", [LM_LATEX] = " \\cdot ", [LM_ASCII] = " * " };
    bool                     first  = true;
    unsigned                 n      = 0;

    for (const lm_term *t = x->terms; t; t = t->next)
        n += t->inverse == inverse;
    for (const lm_term *t = x->terms; t; t = t->next) {
        if (t->inverse != inverse)
            continue;
        lm_text_add_str(w->out, first ? "" : dots[w->notation]);
        bool quotient = t->x->kind == LM_X_PRODUCT && count_inverse(t->x) && w->notation != LM_LATEX;
        write_grouped(w, t->x, (t->x->kind == LM_X_SUM && (n > 1 || w->notation != LM_LATEX)) || quotient);
        first = false;
    }
    if (first)
        lm_text_add_str(w->out, "1");
}

static void write_product(const writer *w, const lm_expr *x)
{
    unsigned below = count_inverse(x);
    bool     group = below > 1;

    if (below && w->notation == LM_LATEX) {
        lm_text_add_str(w->out, "\\frac{");
        write_factors(w, x, false);
        lm_text_add_str(w->out, "}{");
        write_factors(w, x, true);
        lm_text_add_str(w->out, "}");
        return;
    }
    write_factors(w, x, false);
    if (!below)
        return;
    for (const lm_term *t = x->terms; t; t = t->next)
        group |= t->inverse &&
                 (t->x->kind == LM_X_PRODUCT || (lm_expr_is_number(t->x) && !stands_alone(w, t->x)));
    lm_text_add_str(w->out, group ? " / (" : " / ");
    write_factors(w, x, true);
    lm_text_add_str(w->out, group ? ")" : "");
}

static void write_sum(const writer *w, const lm_expr *x)
{
    const char *minus = w->notation == LM_UNICODE ? "−" : "-";

    for (const lm_term *t = x->terms; t; t = t->next) {
        if (t != x->terms)
            lm_text_printf(w->out, " %s ", t->inverse ? minus : "+");
        else if (t->inverse)
            lm_text_add_str(w->out, minus);
        write_grouped(w, t->x, t->inverse && t->x->kind == LM_X_SUM);
    }
}

static bool small_number(const writer *w, const lm_expr *x)
{
    lm_symbol_value q = lm_expr_value(x);

    return (x->kind == LM_X_NUMBER || (x->kind == LM_X_SYMBOL && w->numbers)) && q.whole && q.n >= 0 &&
           q.n < 100;
}

static void write_power(const writer *w, const lm_expr *x)
{
    const lm_expr *base = x->terms->x, *exponent = x->terms->next->x;
    char           digits[24];

    write_grouped(w, base, !stands_alone(w, base));
    if (w->notation == LM_LATEX) {
        lm_text_add_str(w->out, "^{");
        write_expr(w, exponent);
        lm_text_add_str(w->out, "}");
    } else if (w->notation == LM_UNICODE && small_number(w, exponent)) {
        snprintf(digits, sizeof digits, "%" PRId64, lm_expr_value(exponent).n);
        raise_digits(digits, w->out);
    } else {
        lm_text_add_str(w->out, "^");
        write_grouped(w, exponent, !stands_alone(w, exponent) || lm_expr_value(exponent).x < 0);
    }
}

/* ⌊x⌋, ⌈x⌉ */
static void write_whole_part(const writer *w, const lm_expr *x)
{
    bool latex = w->notation == LM_LATEX, floor = x->kind == LM_X_FLOOR;

    lm_text_add_str(w->out, latex ? floor ? "\\lfloor " : "\\lceil " : floor ? "⌊" : "⌈");
    write_expr(w, x->terms->x);
    lm_text_add_str(w->out, latex ? floor ? " \\rfloor" : " \\rceil" : floor ? "⌋" : "⌉");
}

static void write_call(const writer *w, const lm_expr *x)
{
    static const char *const names[] = {
        [LM_X_SQRT] = "sqrt", [LM_X_LN] = "ln",     [LM_X_EXP] = "exp", [LM_X_SIN] = "sin",
        [LM_X_COS] = "cos",   [LM_X_TANH] = "tanh", [LM_X_ERF] = "erf", [LM_X_FLOOR] = "floor",
        [LM_X_CEIL] = "ceil", [LM_X_MIN] = "min",   [LM_X_MAX] = "max"
    };
    bool                     bare    = stands_alone(w, x->terms->x);
    bool whole = (x->kind == LM_X_FLOOR || x->kind == LM_X_CEIL) && w->notation != LM_ASCII;

    if (whole) {
        write_whole_part(w, x);
        return;
    }

    if (x->kind == LM_X_SQRT && w->notation != LM_ASCII) {
        lm_text_add_str(w->out, w->notation == LM_LATEX ? "\\sqrt{" : bare ? "√" : "√(");
        write_expr(w, x->terms->x);
        lm_text_add_str(w->out, w->notation == LM_LATEX ? "}" : bare ? "" : ")");
        return;
    }
    if (w->notation == LM_LATEX)
        lm_text_printf(w->out, x->kind == LM_X_ERF ? "\\mathrm{%s}(" : "\\%s(", names[x->kind]);
    else
        lm_text_printf(w->out, "%s(", names[x->kind]);
    for (const lm_term *t = x->terms; t; t = t->next) {
        lm_text_add_str(w->out, t == x->terms ? "" : ", ");
        write_expr(w, t->x);
    }
    lm_text_add_str(w->out, ")");
}

static void write_expr(const writer *w, const lm_expr *x)
{
    switch (x->kind) {
    case LM_X_NUMBER:
        lm_quantity_write(x->value, w->notation, w->out);
        break;
    case LM_X_SYMBOL:
        if (w->numbers)
            lm_quantity_write(x->symbol->value, w->notation, w->out);
        else
            lm_symbol_write(x->symbol, w->notation, w->out);
        break;
    case LM_X_SUM:
        write_sum(w, x);
        break;
    case LM_X_PRODUCT:
        write_product(w, x);
        break;
    case LM_X_POWER:
        write_power(w, x);
        break;
    default:
        write_call(w, x);
        break;
    }
}

void lm_expr_write(const lm_expr *x, lm_notation notation, bool numbers, lm_text *out)
{
    writer w = { notation, numbers, out };

    write_expr(&w, x);
}
