/* document_text.c - write a report as text: for terminals, files and email. */
#include <string.h>

#include "study/page/document.h"
#include "study/page/prose.h"
#include "base/columns.h"

typedef struct writer {
    lm_document       *d;
    lm_document_manner m;
    lm_text            *out;
} writer;

/* Write text as a single line. */
static void put_line(const char *text, lm_text *out)
{
    for (; *text; text++)
        lm_text_add_char(out, *text == '\n' || *text == '\t' ? ' ' : *text);
}

/* ---- tables ---- */

enum { BAR = 24 };

/* Return whether another row at `depth` follows before one of lower depth. */
static bool level_continues(const lm_doc_row *r, uint32_t depth)
{
    for (r = r->next; r && r->depth >= depth; r = r->next)
        if (r->depth == depth)
            return true;
    return false;
}

/* Write the prefix of an inner row: blanks, or the branches of a tree. */
static void put_stem(const lm_doc_table *t, const lm_doc_row *r, bool lines, lm_text *out)
{
    for (uint32_t k = 1; k <= r->depth; k++)
        if (!t->tree)
            lm_text_add_str(out, "  ");
        else if (!lines)
            lm_text_add_str(out, "   ");
        else if (k < r->depth)
            lm_text_add_str(out, level_continues(r, k) ? "│  " : "   ");
        else
            lm_text_add_str(out, level_continues(r, k) ? "├─ " : "└─ ");
}

static unsigned cell_width(const lm_doc_table *t, const lm_doc_row *r, uint32_t i, bool lines)
{
    const lm_doc_cell *c = &r->cells[i];

    if (c->kind == LM_CELL_BAR)
        return lines ? BAR + (*c->text ? 2 + lm_text_columns(c->text) : 0) : 0;
    return lm_text_columns(c->text) + (i ? 0 : (t->tree ? 3 : 2) * r->depth);
}

static void measure(const lm_doc_table *t, bool lines, unsigned width[LM_DOC_COLUMNS])
{
    for (uint32_t i = 0; i < t->n_columns; i++) {
        width[i] = lm_text_columns(t->columns[i].title);
        for (const lm_doc_row *r = t->first; r; r = r->next) {
            unsigned w = r->gap ? 0 : cell_width(t, r, i, lines);
            width[i]   = w > width[i] ? w : width[i];
        }
    }
}

static void put_cell(const lm_doc_table *t, const lm_doc_row *r, uint32_t i, unsigned width, bool lines,
                     lm_text *out)
{
    const lm_doc_cell *c    = &r->cells[i];
    lm_text             text = { 0 };

    if (i == 0)
        put_stem(t, r, lines, &text);
    if (c->kind == LM_CELL_BAR && lines) {
        lm_text_add_bar(&text, c->number, BAR);
        if (*c->text) {
            lm_text bar = { 0 };
            lm_put(&bar, text.data ? text.data : "", BAR + 2);
            lm_text_clear(&text);
            lm_text_add_str(&text, bar.data ? bar.data : "");
            put_line(c->text, &text);
            lm_text_free(&bar);
        }
    } else if (c->kind != LM_CELL_BAR)
        put_line(c->text, &text);
    (t->columns[i].right ? lm_put_right : lm_put)(out, text.data ? text.data : "", width);
    out->failed |= text.failed;
    lm_text_free(&text);
}

static void trim(lm_text *out)
{
    while (out->size && out->data[out->size - 1] == ' ')
        out->data[--out->size] = '\0';
}

static void put_titles(const lm_doc_table *t, unsigned indent, const unsigned *width, lm_text *out)
{
    lm_text_printf(out, "%*s", (int)indent, "");
    for (uint32_t i = 0; i < t->n_columns; i++) {
        lm_text_add_str(out, i ? "  " : "");
        (t->columns[i].right ? lm_put_right : lm_put)(out, t->columns[i].title, width[i]);
    }
    trim(out);
    lm_text_add_char(out, '\n');
}

/* Count the cells up to the last one that is not empty. */
static uint32_t cells_of(const lm_doc_table *t, const lm_doc_row *r)
{
    uint32_t n = r->gap ? 0 : t->n_columns;

    while (n > 0 && !*r->cells[n - 1].text && r->cells[n - 1].kind != LM_CELL_BAR)
        n--;
    return n;
}

/* Write a table. `columns` 0: no limit; otherwise a last column of text is wrapped. */
static void put_table(const lm_doc_table *t, unsigned indent, unsigned columns, bool lines, lm_text *out)
{
    unsigned width[LM_DOC_COLUMNS], at = indent;

    measure(t, lines, width);
    if (t->headed)
        put_titles(t, indent, width, out);
    for (uint32_t i = 0; i + 1 < t->n_columns; i++)
        at += width[i] + 2;
    for (const lm_doc_row *r = t->first; r; r = r->next) {
        uint32_t last = cells_of(t, r);
        bool breaks = columns && last == t->n_columns && last > 1 && !t->columns[last - 1].right &&
                      r->cells[last - 1].kind != LM_CELL_BAR && at + 24 < columns &&
                      at + cell_width(t, r, last - 1, lines) > columns;
        if (!r->gap)
            lm_text_printf(out, "%*s", (int)indent, "");
        for (uint32_t i = 0; i < last - breaks; i++) {
            lm_text_add_str(out, i ? "  " : "");
            put_cell(t, r, i, t->columns[i].right || i + 1 < last ? width[i] : 0, lines, out);
        }
        if (breaks) {
            lm_text_add_str(out, "  ");
            lm_put_prose(out, r->cells[last - 1].text, at, at, columns);
            continue;
        }
        trim(out);
        lm_text_add_char(out, '\n');
    }
}

void lm_doc_table_text(const lm_doc_table *t, unsigned indent, bool lines, lm_text *out)
{
    put_table(t, indent, 0, lines, out);
}

/* ---- blocks ---- */

static void put_prose(const writer *w, const char *lead, const char *text, unsigned indent)
{
    unsigned at = indent + lm_text_columns(lead);

    lm_text_printf(w->out, "%*s%s", (int)indent, "", lead);
    lm_put_prose(w->out, text, at, at, w->m.columns);
}

static void put_formula(const writer *w, const lm_doc_formula *f)
{
    lm_text whole = { 0 };

    lm_text_printf(&whole, "%s%s%s\n", f->name ? f->name : "", f->name ? ":  " : "", f->unicode);
    if (!whole.failed)
        lm_put_lines(w->out, whole.data, 6);
    w->out->failed |= whole.failed;
    lm_text_free(&whole);
}

static void put_derivation(const writer *w, lm_derivation *x)
{
    lm_glossary_text(x, 4, w->out);
    lm_text_add_char(w->out, '\n');
    for (size_t i = 0; i < x->n_steps; i++)
        lm_formula_text(x, &x->steps[i], 4, w->out);
}

static void put_caption(const writer *w, const lm_block *b)
{
    if (!b->title)
        return;
    lm_text_add_str(w->out, "  ");
    put_line(b->title, w->out);
    lm_text_add_char(w->out, '\n');
}

static void put_leaf(const writer *w, const lm_block *b)
{
    switch (b->kind) {
    case LM_BLOCK_TEXT:
        put_prose(w, "", b->text, 2);
        break;
    case LM_BLOCK_NOTE:
        put_prose(w, "· ", b->text, 2);
        break;
    case LM_BLOCK_WARNING:
        put_prose(w, "! ", b->text, 2);
        break;
    case LM_BLOCK_LIST:
        for (const lm_doc_item *x = b->items; x; x = x->next)
            put_prose(w, x->mark == '+' ? "+ " : x->mark == '!' ? "− " : "· ", x->text, 4);
        break;
    case LM_BLOCK_TABLE:
        put_caption(w, b);
        put_table(b->table, b->title ? 4 : 2, w->m.columns, w->m.lines, w->out);
        break;
    case LM_BLOCK_FORMULA:
        put_formula(w, &b->formula);
        break;
    case LM_BLOCK_DERIVATION:
        put_derivation(w, b->derivation);
        break;
    case LM_BLOCK_FIGURE:
        put_caption(w, b);
        lm_put_lines(w->out, b->figure.text, 4);
        break;
    case LM_BLOCK_VERBATIM:
        lm_put_lines(w->out, b->text, 4);
        break;
    default:
        break;
    }
}

static void put_heading(const writer *w, const lm_block *b)
{
    size_t from = w->out->size;

    lm_text_printf(w->out, "%s  ", b->number);
    put_line(b->title, w->out);
    if (w->out->failed)
        return;
    unsigned wide = lm_text_columns(w->out->data + from);
    lm_text_add_char(w->out, '\n');
    if (b->level <= 2)
        lm_put_rule(w->out, b->level == 1 ? (w->m.lines ? "═" : "=") : w->m.lines ? "─" : "-", wide);
    lm_text_add_str(w->out, b->level <= 2 ? "\n" : "");
}

/* Return whether no empty line separates the blocks: consecutive formulas, and folds that repeat others. */
static bool stays_close(const lm_block *before, const lm_block *b)
{
    return before ? (b->kind == LM_BLOCK_FORMULA && before->kind == LM_BLOCK_FORMULA) ||
                        (b->same_as && before->same_as)
                  : false;
}

static void put_blocks(const writer *w, const lm_block *within);

/* Write a fold as open. If it repeats another, write only its first paragraph, which says so. */
static void put_fold(const writer *w, const lm_block *b)
{
    lm_text_printf(w->out, "  %s ", !w->m.lines ? "*" : b->same_as ? "▸" : "▾");
    put_line(b->title, w->out);
    lm_text_add_char(w->out, '\n');
    if (!b->same_as)
        put_blocks(w, b);
    else if (b->first && b->first->kind == LM_BLOCK_TEXT)
        put_prose(w, "", b->first->text, 4);
}

static void put_blocks(const writer *w, const lm_block *within)
{
    const lm_block *before = NULL;

    for (const lm_block *b = within->first; b; before = b, b = b->next) {
        if (!stays_close(before, b) && w->out->size)
            lm_text_add_str(w->out, b->kind == LM_BLOCK_SECTION && b->level == 1 ? "\n\n" : "\n");
        if (b->kind == LM_BLOCK_SECTION) {
            put_heading(w, b);
            put_blocks(w, b);
        } else if (b->kind == LM_BLOCK_FOLD) {
            put_fold(w, b);
        } else {
            put_leaf(w, b);
        }
    }
}

static void put_contents(const writer *w)
{
    lm_text_printf(w->out, "\n%s\n\n", _("Contents"));
    for (const lm_block *b = lm_document_next(NULL, w->d); b; b = lm_document_next((lm_block *)b, w->d)) {
        if (!lm_doc_in_contents(b))
            continue;
        lm_text_printf(w->out, "%*s%-4s ", (int)(2 + 4 * (b->level - 1)), "", b->number);
        put_line(b->title, w->out);
        lm_text_add_char(w->out, '\n');
    }
}

void lm_document_text(lm_document *d, const lm_document_manner *m, lm_text *out)
{
    writer w = { d, m ? *m : (lm_document_manner){ 0 }, out };

    if (!w.m.columns)
        w.m.columns = 80;
    if (d->root.title) {
        put_line(d->root.title, out);
        lm_text_add_char(out, '\n');
        lm_put_rule(out, w.m.lines ? "━" : "=", lm_text_columns(d->root.title));
        lm_text_add_char(out, '\n');
        if (d->subtitle)
            lm_put_prose(out, d->subtitle, 0, 0, w.m.columns);
        if (!d->brief)
            put_contents(&w);
    }
    put_blocks(&w, &d->root);
}
