/* derive_write.c - write derivations for readers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/derive.h"
#include "base/columns.h"

/* ---- values ---- */

static void write_scaled(double x, double step, const char *const *units, size_t n, lm_text *out)
{
    size_t u = 0;

    for (; x >= step - step / 2000 && u + 1 < n; u++)
        x /= step;
    lm_text_printf(out,
                   x == nearbyint(x) && x < 1000 ? "%.0f %s"
                   : x < 9.995                   ? "%.2f %s"
                   : x < 99.95                   ? "%.1f %s"
                                                 : "%.0f %s",
                   x, units[u]);
}

/* Append a large value again in rounded form; bytes in both decimal and binary units. */
static void write_rounded(lm_symbol_value q, lm_unit unit, lm_text *out)
{
    static const char *const decimal[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    static const char *const binary[]  = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    static const char *const flops[]   = { "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP" };
    static const char *const counts[]  = { "", "k", "M", "B", "T" };

    if (unit == LM_UNIT_BYTES && q.x >= 1000) {
        lm_text_add_str(out, " (");
        write_scaled(q.x, 1000, decimal, 6, out);
        lm_text_add_str(out, ", ");
        write_scaled(q.x, 1024, binary, 6, out);
        lm_text_add_str(out, ")");
    } else if (unit == LM_UNIT_FLOPS && q.x >= 1e6) {
        lm_text_add_str(out, " (");
        write_scaled(q.x, 1000, flops, 7, out);
        lm_text_add_str(out, ")");
    } else if (unit == LM_UNIT_PARAMETERS && q.x >= 1e6) {
        lm_text_add_str(out, " (");
        write_scaled(q.x, 1000, counts, 5, out);
        lm_text_add_str(out, ")");
    }
}

/* Return what a derived value counts, in words. */
static const char *unit_word(lm_unit unit)
{
    switch (unit) {
    case LM_UNIT_PARAMETERS:
        return C_("unit", "parameters");
    case LM_UNIT_BYTES:
        return C_("unit", "bytes");
    case LM_UNIT_MULT_ADDS:
        return C_("unit", "mult-adds");
    case LM_UNIT_ELEMENTS:
        return C_("unit", "elements");
    case LM_UNIT_TOKENS:
        return C_("unit", "tokens");
    case LM_UNIT_LAYERS:
        return C_("unit", "layers");
    case LM_UNIT_HEADS:
        return C_("unit", "heads");
    case LM_UNIT_LANES:
        return C_("unit", "dimensions");
    case LM_UNIT_EXPERTS:
        return C_("unit", "experts");
    case LM_UNIT_RADIANS:
        return C_("unit", "rad/token");
    case LM_UNIT_TOKENS_PER_SECOND:
        return C_("unit", "tokens/s");
    default:
        return lm_unit_name(unit);
    }
}

/* Append a value such as "939,524,096 bytes (896 MiB)"; a long count is followed by a form such as "6.43
 * GFLOP". */
static void write_value(lm_symbol_value q, lm_unit unit, lm_notation notation, lm_text *out)
{
    const char *word = unit_word(unit);

    lm_quantity_write(q, notation, out);
    if (unit == LM_UNIT_NONE || unit == LM_UNIT_RATIO)
        return;
    lm_text_printf(out, notation == LM_LATEX ? "\\ \\text{%s%s" : " %s%s", unit == LM_UNIT_PERCENT &&
                  notation == LM_LATEX ? "\\" : "", word);
    write_rounded(q, unit, out);
    if (notation == LM_LATEX)
        lm_text_add_str(out, "}");
}

/* ---- steps ---- */

void lm_formula_forms(lm_derivation *d, const lm_formula *s, lm_notation notation, lm_form_writer *write,
                      void *arg)
{
    lm_text         now = { 0 }, before = { 0 };
    const lm_expr *x = s->x;

    if (lm_expr_is_number(x)) {
        lm_expr_write(x, notation, false, &now);
        write_value(lm_expr_value(x), s->unit, notation, &before);
        bool whole = !now.failed && !before.failed;
        if (whole && strncmp(now.data, before.data, now.size) != 0)
            write(arg, now.data, false);
        if (whole)
            write(arg, before.data, true);
        d->f->failed |= !whole;
        lm_text_free(&now);
        lm_text_free(&before);
        return;
    }
    lm_expr_write(x, notation, false, &before);
    if (!before.failed)
        write(arg, before.data, false);
    for (unsigned i = 0; i < 12 && !lm_expr_is_number(x); i++) {
        lm_text_clear(&now);
        lm_expr_write(x, notation, true, &now);
        if (!now.failed && strcmp(now.data, before.data ? before.data : "") != 0)
            write(arg, now.data, false);
        lm_text_clear(&before);
        lm_text_add_str(&before, now.data ? now.data : "");
        x = lm_expr_fold(&d->f->arena, x);
    }
    lm_text_clear(&now);
    write_value(lm_expr_value(s->x), s->unit, notation, &now);
    if (!now.failed)
        write(arg, now.data, true);
    d->f->failed |= now.failed || before.failed;
    lm_text_free(&now);
    lm_text_free(&before);
}

void lm_formula_verdict(const lm_formula *s, lm_text *out)
{
    char number[32];

    if (!s->fact)
        return;
    if (s->agrees) {
        lm_text_add_str(out, s->fact->origin == LM_FROM_PLAN ? _("   ✓ as planned") : _("   ✓ as counted"));
        return;
    }
    if (s->fact->kind == LM_FACT_COUNT) {
        lm_text counted = { 0 };
        lm_quantity_write(lm_whole(s->fact->count), LM_UNICODE, &counted);
        lm_text_printf(out, _("   ✗ counted: %s"), counted.data ? counted.data : "");
        lm_text_free(&counted);
    } else {
        lm_text_printf(out, _("   ✗ counted: %s"), lm_number_text(number, s->fact->number));
    }
}

typedef struct text_form {
    const lm_formula *s;
    unsigned       indent, width;
    bool           first;
    lm_text        *out;
} text_form;

static void write_text_form(void *arg, const char *text, bool last)
{
    text_form *t = arg;

    lm_text_printf(t->out, "%*s%-*s = %s", (int)t->indent, "", (int)t->width,
                   t->first ? t->s->symbol->name : "", text);
    if (last)
        lm_formula_verdict(t->s, t->out);
    lm_text_add_char(t->out, '\n');
    t->first = false;
}

void lm_formula_text(lm_derivation *d, const lm_formula *s, unsigned indent, lm_text *out)
{
    if (s->heading) {
        lm_text_printf(out, "%*s%s\n", (int)indent, "", s->title);
        return;
    }
    text_form t = { s, indent + 2, (unsigned)strlen(s->symbol->name), true, out };
    if (s->title)
        lm_text_printf(out, "%*s%s\n", (int)indent, "", s->title);
    lm_formula_forms(d, s, LM_UNICODE, write_text_form, &t);
}

typedef struct latex_form {
    const lm_formula *s;
    bool           first;
    lm_text        *out;
} latex_form;

static void write_latex_form(void *arg, const char *text, bool last)
{
    latex_form *t = arg;

    if (t->first)
        lm_symbol_write(t->s->symbol, LM_LATEX, t->out);
    lm_text_printf(t->out, " &= %s%s\n", text, last ? "" : " \\\\");
    t->first = false;
}

static void put_latex(lm_derivation *d, const lm_formula *s, const char *open, const char *close,
                      lm_text *out)
{
    latex_form t = { s, true, out };

    if (s->heading) {
        lm_text_printf(out, "\n**%s**\n", s->title);
        return;
    }
    lm_text_printf(out, "\n%s", s->title ? s->title : "");
    lm_formula_verdict(s, out);
    lm_text_printf(out, "\n\n%s\n\\begin{aligned}\n", open);
    lm_formula_forms(d, s, LM_LATEX, write_latex_form, &t);
    lm_text_printf(out, "\\end{aligned}\n%s\n", close);
}

void lm_formula_latex(lm_derivation *d, const lm_formula *s, lm_text *out)
{
    put_latex(d, s, "```math", "```", out);
}

void lm_formula_pandoc(lm_derivation *d, const lm_formula *s, lm_text *out)
{
    put_latex(d, s, "$$", "$$", out);
}

/* ---- glossary ---- */

/* Return the letter that formulas have in place of the name, if it is spelled alike in LaTeX and in text (D,
 * K_R); NULL: none. */
static const char *letter_of(const lm_symbol *s)
{
    const char *at = s->latex;

    if (!at || strcmp(at, s->name) == 0)
        return NULL;
    while (isalpha((unsigned char)*at) || *at == '_')
        at++;
    return *at ? NULL : s->latex;
}

void lm_glossary_text(const lm_derivation *d, unsigned indent, lm_text *out)
{
    unsigned widest = 0, digits = 0;
    lm_text   value  = { 0 };

    for (size_t i = 0; i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        lm_text_clear(&value);
        lm_quantity_write(s->value, LM_UNICODE, &value);
        widest = strlen(s->name) > widest ? (unsigned)strlen(s->name) : widest;
        digits = value.data && lm_text_columns(value.data) > digits ? lm_text_columns(value.data) : digits;
    }
    for (size_t i = 0; i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        lm_text_clear(&value);
        lm_quantity_write(s->value, LM_UNICODE, &value);
        lm_text_printf(out, "%*s%-*s = ", (int)indent, "", (int)widest, s->name);
        lm_put_right(out, value.data ? value.data : "", digits);
        if (letter_of(s))
            lm_text_printf(out, "   %s: %s\n", letter_of(s), s->meaning);
        else
            lm_text_printf(out, "   %s\n", s->meaning);
    }
    lm_text_free(&value);
}

void lm_glossary_markdown(const lm_derivation *d, lm_text *out)
{
    lm_text_add_str(out, _("| symbol | value | is |\n|---|---:|---|\n"));
    for (size_t i = 0; i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        lm_text_add_str(out, "| $");
        lm_symbol_write(s, LM_LATEX, out);
        lm_text_add_str(out, "$ | ");
        lm_quantity_write(s->value, LM_UNICODE, out);
        lm_text_printf(out, " | %s (`%s`) |\n", s->meaning, s->name);
    }
}
