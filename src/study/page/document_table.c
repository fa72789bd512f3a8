/* document_table.c - tables of a report: cells that store exact numbers. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/page/document.h"
#include "base/number.h"

/* ---- numbers ---- */

char *lm_doc_count_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, uint64_t n)
{
    char figure[LM_FIG];

    if (m == LM_BOTH)
        lm_fig_both(figure, n);
    else if (m == LM_SHORT)
        lm_fig_short(figure, (double)n);
    else if (m == LM_PLAIN && unit == LM_UNIT_BYTES)
        lm_fig_bytes(figure, n);
    else if (m == LM_PLAIN && unit == LM_UNIT_FLOPS)
        lm_fig_flops(figure, (double)n);
    else
        lm_fig_count(figure, n);
    snprintf(out, LM_DOC_FIGURE, "%s", figure);
    return out;
}

char *lm_doc_number_text(char out[LM_DOC_FIGURE], lm_manner m, lm_unit unit, double x)
{
    char figure[LM_FIG];

    if (m == LM_EXACT)
        lm_number_text(figure, x);
    else if (unit == LM_UNIT_BYTES)
        lm_fig_size(figure, x);
    else if (unit == LM_UNIT_FLOPS)
        lm_fig_flops(figure, x);
    else if (unit == LM_UNIT_PERCENT)
        lm_print(figure, sizeof figure, "%.2f %%", x);
    else if (unit == LM_UNIT_TOKENS_PER_SECOND)
        lm_fig_rate(figure, x);
    else if (unit == LM_UNIT_BYTES_PER_SECOND)
        lm_print(figure, sizeof figure, x < 99.95e9 ? "%.1f GB/s" : "%.0f GB/s", x / 1e9);
    else if (unit == LM_UNIT_FLOPS_PER_SECOND)
        lm_print(figure, sizeof figure,
                 x < 999.5e9    ? "%.0f GFLOP/s"
                 : x < 99.95e12 ? "%.1f TFLOP/s"
                                : "%.0f TFLOP/s",
                 x < 999.5e9 ? x / 1e9 : x / 1e12);
    else if (unit == LM_UNIT_SECONDS)
        lm_print(figure, sizeof figure, x < 1 ? "%.3g ms" : "%.3g s", x < 1 ? 1000 * x : x);
    else if (m == LM_SHORT)
        lm_fig_short(figure, x);
    else
        lm_print(figure, sizeof figure, "%.6g", x);
    snprintf(out, LM_DOC_FIGURE, "%s", figure);
    return out;
}

/* ---- the table ---- */

/* The table used after a failed allocation: its rows are dropped. */
static lm_doc_table *no_table(lm_document *d)
{
    d->no_table = (lm_doc_table){ .d = d };
    return &d->no_table;
}

void lm_doc_column_of(lm_doc_table *t, const char *title, bool right, lm_facts *facts)
{
    if (t->n_columns == LM_DOC_COLUMNS || t->first)
        return;
    t->columns[t->n_columns++] = (lm_doc_column){ lm_doc_strdup(t->d, title), right, facts };
    t->headed |= *title != '\0';
}

lm_doc_table *lm_doc_table_of(lm_document *d, const char *id, const char *caption, const char *align, ...)
{
    lm_doc_table *t = lm_arena_new(&d->arena, 1, lm_doc_table);
    lm_block     *b = t ? lm_doc_block(d, LM_BLOCK_TABLE, id) : NULL;
    va_list       titles;

    d->failed |= !t;
    if (!b || b->kind != LM_BLOCK_TABLE)
        return no_table(d);
    *t       = (lm_doc_table){ .d = d };
    b->table = t;
    b->title = caption ? lm_doc_strdup(d, caption) : NULL;
    va_start(titles, align);
    for (; *align; align++)
        lm_doc_column_of(t, va_arg(titles, const char *), *align == 'r', NULL);
    va_end(titles);
    return t;
}

/* ---- rows ---- */

lm_doc_row *lm_next_row(lm_doc_table *t)
{
    lm_doc_row  *r     = lm_arena_new(&t->d->arena, 1, lm_doc_row);
    lm_doc_cell *cells = lm_arena_new(&t->d->arena, t->n_columns + 1, lm_doc_cell);

    if (!r || !cells) {
        t->d->failed = true;
        return &t->d->no_row;
    }
    for (uint32_t i = 0; i < t->n_columns; i++)
        cells[i].text = "";
    r->cells = cells;
    if (t->last)
        t->last->next = r;
    else
        t->first = r;
    t->last = r;
    t->n_rows++;
    return r;
}

lm_doc_row *lm_strong_row(lm_doc_table *t)
{
    lm_doc_row *r = lm_next_row(t);

    r->strong = true;
    return r;
}

lm_doc_row *lm_inner_row(lm_doc_table *t, uint32_t depth)
{
    lm_doc_row *r = lm_next_row(t);

    r->depth = depth;
    return r;
}

void lm_gap_row(lm_doc_table *t)
{
    lm_next_row(t)->gap = true;
}

void lm_group_row(lm_doc_table *t, const char *id, const char *title)
{
    lm_strong_row(t)->group = id;
    lm_cell(t, title);
}

/* ---- cells ---- */

static lm_doc_cell *add_cell(lm_doc_table *t, lm_cell_kind kind, const char *text)
{
    lm_doc_row *r = t->last;

    if (t->d->failed || !r || r->n >= t->n_columns)
        return &t->d->no_cell;
    lm_doc_cell *c = &r->cells[r->n++];
    *c             = (lm_doc_cell){ .kind = kind, .text = *text ? lm_doc_strdup(t->d, text) : "" };
    return c;
}

void lm_cell(lm_doc_table *t, const char *text)
{
    add_cell(t, *text ? LM_CELL_TEXT : LM_CELL_EMPTY, text);
}

void lm_cellf(lm_doc_table *t, const char *format, ...)
{
    lm_text  b = { 0 };
    va_list args;

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    t->d->failed |= b.failed;
    lm_cell(t, b.data ? b.data : "");
    lm_text_free(&b);
}

void lm_cell_code(lm_doc_table *t, const char *text)
{
    add_cell(t, *text ? LM_CELL_CODE : LM_CELL_EMPTY, text);
}

void lm_cell_empty(lm_doc_table *t)
{
    add_cell(t, LM_CELL_EMPTY, "");
}

void lm_cell_math(lm_doc_table *t, const char *unicode, const char *latex)
{
    add_cell(t, LM_CELL_MATH, unicode)->latex = lm_doc_strdup(t->d, latex);
}

void lm_cell_bar(lm_doc_table *t, double share, uint32_t series)
{
    lm_doc_cell *c = add_cell(t, LM_CELL_BAR, "");

    c->number = share < 0 ? 0 : share > 1 ? 1 : share;
    c->series = series;
}

void lm_cell_count(lm_doc_table *t, lm_manner m, lm_unit unit, uint64_t n)
{
    char         text[LM_DOC_FIGURE];
    lm_doc_cell *c = add_cell(t, LM_CELL_COUNT, lm_doc_count_text(text, m, unit, n));

    c->count = n;
    c->unit  = unit;
}

void lm_cell_number(lm_doc_table *t, double x, lm_unit unit, const char *text)
{
    lm_doc_cell *c = add_cell(t, LM_CELL_NUMBER, text);

    c->number = x;
    c->unit   = unit;
}

/* ---- cells that are facts ---- */

void lm_cell_fact_of(lm_doc_table *t, lm_manner m, lm_facts *f, const char *path)
{
    const lm_fact *x = NULL;

    lm_cell_of_fact(t, m, f && lm_facts_find(f, path, &x, NULL) == LM_OK ? x : NULL, path);
}

void lm_cell_of_fact(lm_doc_table *t, lm_manner m, const lm_fact *x, const char *path)
{
    char         text[LM_DOC_FIGURE];
    lm_doc_cell *c;

    if (!x || x->kind == LM_FACT_NONE || x->kind >= LM_FACT_GROUP) {
        lm_cell_empty(t);
        return;
    }
    switch (x->kind) {
    case LM_FACT_COUNT:
        c        = add_cell(t, LM_CELL_COUNT, lm_doc_count_text(text, m, x->unit, x->count));
        c->count = x->count;
        break;
    case LM_FACT_NUMBER:
        c         = add_cell(t, LM_CELL_NUMBER, lm_doc_number_text(text, m, x->unit, x->number));
        c->number = x->number;
        break;
    case LM_FACT_BOOL:
        c = add_cell(t, LM_CELL_TEXT, lm_truth_text(x->name, x->truth));
        break;
    default:
        c = add_cell(t, LM_CELL_TEXT, _(x->text));
        break;
    }
    c->unit = x->unit;
    c->path = path ? lm_doc_strdup(t->d, path) : NULL;
}

void lm_cell_fact(lm_doc_table *t, lm_manner m, const char *path, ...)
{
    char    whole[192];
    va_list args;

    va_start(args, path);
    int n = vsnprintf(whole, sizeof whole, path, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof whole)
        lm_cell_empty(t);
    else
        lm_cell_fact_of(t, m, t->d->facts, whole);
}

void lm_fact_row(lm_doc_table *t, const char *label, lm_manner m, ...)
{
    va_list paths;

    lm_next_row(t);
    lm_cell(t, label);
    va_start(paths, m);
    for (const char *path; (path = va_arg(paths, const char *));)
        lm_cell_fact_of(t, m, *path ? t->d->facts : NULL, path);
    va_end(paths);
}
