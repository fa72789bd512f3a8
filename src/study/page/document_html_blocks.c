/* document_html_blocks.c - write tables, derivations and figures of a page. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "study/draw/chart.h"
#include "study/facts/figure.h"
#include "study/page/html.h"
#include "study/page/mathml.h"
#include "base/columns.h"
#include "base/language.h"

/* ---- tables ---- */

/* Return whether rows may be reordered: not if they are grouped or belong to the row above, nor in tables of
 * models, where each row is a different quantity. */
static bool sortable(const lm_doc_table *t)
{
    uint32_t rows = 0;

    for (uint32_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].facts)
            return false;
    for (const lm_doc_row *r = t->first; r; r = r->next) {
        if (r->depth || (r->gap && r->next && !r->next->strong))
            return false;
        rows += !r->gap && !r->strong;
    }
    return t->headed && rows > 2;
}

/* ---- lines at sizes of memory ---- */

/* Sizes of one device or, from 640 GiB, of eight. */
static const struct { double gib; const char *label; } memories[] = {
    { 8, "8" }, { 16, "16" }, { 24, "24" }, { 48, "48" }, { 80, "80" }, { 192, "192" }, { 640, "8×80" }, { 1536, "8×192" },
};

enum { MEMORIES = sizeof memories / sizeof *memories };

static const double GIB = 1 << 30;

/* Return the length of the axis: the longest bar, but at least the next line that is not shorter. */
static double axis_of(double max)
{
    for (size_t i = 0; i < MEMORIES; i++)
        if (memories[i].gib * GIB >= max)
            return memories[i].gib * GIB;
    return max;
}

/* Return a bit mask of the lines to draw: from the longest down, those that leave room for their labels. */
static uint32_t lines_of(double axis)
{
    static const double apart = 0.16;
    uint32_t lines = 0;
    double   last  = 1 + 2 * apart;

    for (size_t i = MEMORIES; i-- > 0;) {
        double at = memories[i].gib * GIB / axis;
        if (at <= 1 && last - at >= apart * (memories[i].gib >= 640 ? 2 : 1)) {
            lines |= UINT32_C(1) << i;
            last = at;
        }
    }
    return lines;
}

static void put_lines(lm_html *h, double axis, bool labels)
{
    uint32_t lines = lines_of(axis);

    for (size_t i = 0; i < MEMORIES; i++)
        if (lines >> i & 1)
            lm_text_printf(h->out, "<i style=\"left:%.2f%%\">%s</i>", 100 * memories[i].gib * GIB / axis,
                           labels ? memories[i].label : "");
}

static void put_axis(lm_html *h, double axis)
{
    lm_text_add_str(h->out, "<td class=\"b axis\"><small>");
    lm_markup_text(h->out, _("memory of devices, GiB"));
    lm_text_add_str(h->out, "</small><div>");
    put_lines(h, axis, true);
    lm_text_add_str(h->out, "</div></td>");
}

/* ---- rows ---- */

static void put_titles(lm_html *h, const lm_doc_table *t, bool sorts, double max)
{
    uint32_t model = 0;

    lm_text_add_str(h->out, "<thead><tr>");
    for (uint32_t i = 0; i < t->n_columns; i++) {
        const lm_doc_column *c = &t->columns[i];
        lm_text_printf(h->out, "<th scope=\"col\"%s>", c->right ? " class=\"n\"" : "");
        if (c->facts)
            lm_text_printf(h->out, "<span class=\"swatch c%u\"></span>", 1 + (model++ % LM_CURVES));
        if (sorts && *c->title) {
            lm_text_add_str(h->out, "<button type=\"button\">");
            lm_markup_text(h->out, c->title);
            lm_text_add_str(h->out, "</button>");
        } else {
            lm_markup_text(h->out, c->title);
        }
        lm_text_add_str(h->out, "</th>");
    }
    if (t->sized)
        put_axis(h, max);
    else if (t->drawn)
        lm_text_add_str(h->out, "<td></td>");
    lm_text_add_str(h->out, "</tr></thead>\n");
}

/* Write the exact value if the text is rounded, for sorting and as a tooltip. */
static void put_exact(lm_html *h, const lm_doc_cell *c)
{
    char   number[LM_FIG];
    lm_text hint = { 0 };

    if (c->kind == LM_CELL_COUNT) {
        bool rounded = strcmp(lm_fig_count(number, c->count), c->text) != 0;
        if (rounded) {
            lm_text_printf(h->out, " data-v=\"%" PRIu64 "\"", c->count);
            lm_text_printf(&hint, "%s%s%s", number, *lm_unit_name(c->unit) ? " " : "", lm_unit_name(c->unit));
        }
    } else {
        lm_text_printf(h->out, " data-v=\"%.17g\"", isfinite(c->number) ? c->number : 0);
    }
    if (c->path)
        lm_text_printf(&hint, "%s%s", hint.size ? " · " : "", c->path);
    if (hint.data)
        lm_html_attribute(h, "title", hint.data);
    h->out->failed |= hint.failed;
    lm_text_free(&hint);
}

static void put_bar(lm_html *h, double share, uint32_t series)
{
    lm_text_add_str(h->out, "<span class=\"bar");
    if (series)
        lm_text_printf(h->out, " c%u", 1 + (series - 1) % LM_CURVES);
    lm_text_printf(h->out, "\" style=\"width:%.2f%%\"></span>", 100 * fmin(1, fmax(0, share)));
}

static void put_lead(lm_html *h, const lm_doc_cell *c)
{
    if (c->kind == LM_CELL_CODE) {
        lm_text_add_str(h->out, "<code>");
        lm_markup_text(h->out, c->text);
        lm_text_add_str(h->out, "</code>");
    } else if (c->kind == LM_CELL_MATH && c->latex) {
        lm_html_formula(h, c->text, c->latex, false);
    } else if (c->kind == LM_CELL_BAR) {
        put_bar(h, c->number, c->series);
        if (*c->text) {
            lm_text_add_str(h->out, "<small>");
            lm_markup_text(h->out, c->text);
            lm_text_add_str(h->out, "</small>");
        }
    } else {
        lm_markup_text(h->out, c->text);
    }
}

enum { LONG = 40, SHORT = 24 };

/* Bit masks of columns: those with sentences, which need space, and the short ones next to them, which stay
 * on one line. */
typedef struct widths { uint32_t prose, kept; } widths;

static widths measure(const lm_doc_table *t)
{
    widths w = { 0, 0 };

    for (uint32_t i = 0; i < t->n_columns; i++) {
        unsigned widest = 0;
        for (const lm_doc_row *r = t->first; r; r = r->next) {
            unsigned n = r->gap ? 0 : lm_text_columns(r->cells[i].text);
            widest     = n > widest ? n : widest;
        }
        w.prose |= widest > LONG ? UINT32_C(1) << i : 0;
        w.kept |= widest <= SHORT ? UINT32_C(1) << i : 0;
    }
    w.kept = w.prose ? w.kept : 0;
    return w;
}

static void put_cell(lm_html *h, const lm_doc_table *t, const lm_doc_row *r, uint32_t i, widths w)
{
    const lm_doc_cell *c    = &r->cells[i];
    bool               head = i == 0 && (c->kind == LM_CELL_TEXT || c->kind == LM_CELL_CODE);
    const char        *room = w.kept >> i & 1 ? "k" : w.prose >> i & 1 ? "w" : NULL;
    const char        *kind = c->kind == LM_CELL_BAR ? "b" : t->columns[i].right ? "n" : room;

    lm_text_add_str(h->out, head ? "<th scope=\"row\"" : "<td");
    if (kind)
        lm_text_printf(h->out, " class=\"%s\"", kind);
    if (i == 0 && r->depth)
        lm_text_printf(h->out, " style=\"padding-left:%.1fem\"", 0.5 + 1.2 * r->depth);
    if (c->kind == LM_CELL_COUNT || c->kind == LM_CELL_NUMBER)
        put_exact(h, c);
    lm_text_add_char(h->out, '>');
    put_lead(h, c);
    lm_text_add_str(h->out, head ? "</th>" : "</td>");
}

/* Return the value of a number's bar, which is relative to 100 for a percentage and otherwise to the
 * largest. */
static double number_of(const lm_doc_cell *c)
{
    return c->kind == LM_CELL_COUNT ? (double)c->count : c->kind == LM_CELL_NUMBER ? c->number : -1;
}

static double largest(const lm_doc_table *t)
{
    double max = 0;

    for (const lm_doc_row *r = t->first; r && t->drawn; r = r->next)
        if (!r->gap && !r->strong)
            max = fmax(max,
                       r->cells[t->drawn].unit == LM_UNIT_PERCENT ? 100 : number_of(&r->cells[t->drawn]));
    return t->sized ? axis_of(max) : max;
}

static void put_row(lm_html *h, const lm_doc_table *t, const lm_doc_row *r, widths w, double max)
{
    if (r->gap) {
        lm_text_printf(h->out, "<tr class=\"gap\"><td colspan=\"%u\"></td></tr>\n",
                       t->n_columns + (t->drawn > 0));
        return;
    }
    if (r->group) {
        lm_text_add_str(h->out, "<tr class=\"group\"");
        lm_html_attribute(h, "id", r->group);
        lm_text_printf(h->out, "><th scope=\"rowgroup\" colspan=\"%u\"><span>",
                       t->n_columns + (t->drawn > 0));
        lm_markup_text(h->out, r->cells[0].text);
        lm_text_add_str(h->out, "</span></th></tr>\n");
        return;
    }
    lm_text_add_str(h->out, r->strong ? "<tr class=\"total\">" : r->same ? "<tr class=\"same\">" : "<tr>");
    for (uint32_t i = 0; i < t->n_columns; i++)
        put_cell(h, t, r, i, w);
    if (t->drawn) {
        double x = r->strong ? -1 : number_of(&r->cells[t->drawn]);
        lm_text_add_str(h->out, "<td class=\"b\">");
        if (x > 0 && max > 0)
            put_bar(h, x / max, 0);
        if (t->sized)
            put_lines(h, max, false);
        lm_text_add_str(h->out, "</td>");
    }
    lm_text_add_str(h->out, "</tr>\n");
}

/* If some rows are the same for all models, add a switch that shows only those that differ. */
static void put_switch(lm_html *h, const lm_block *b)
{
    bool any = false;

    for (const lm_doc_row *r = b->table->first; r; r = r->next)
        any |= r->same;
    if (!any || !b->id)
        return;
    lm_text_add_str(
        h->out, "<p class=\"note\"><label class=\"differs-only\"><input type=\"checkbox\" data-differs=\"");
    lm_markup_text(h->out, b->id);
    lm_text_add_str(h->out, "\"> ");
    lm_markup_text(h->out, _("only what differs"));
    lm_text_add_str(h->out, "</label></p>\n");
}

void lm_html_table(lm_html *h, const lm_block *b)
{
    const lm_doc_table *t     = b->table;
    bool                sorts = sortable(t);
    widths              w     = measure(t);
    double              max  = largest(t);

    put_switch(h, b);
    lm_text_add_str(h->out, "<div class=\"scroll\" tabindex=\"0\"><table");
    if (b->id)
        lm_html_attribute(h, "id", b->id);
    if (sorts || t->sized)
        lm_text_printf(h->out, " class=\"%s%s%s\"", sorts ? "sorts" : "", sorts && t->sized ? " " : "",
                       t->sized ? "sized" : "");
    lm_text_add_str(h->out, ">\n");
    if (b->title)
        lm_html_element(h, "caption", NULL, b->title);
    if (t->headed || t->sized)
        put_titles(h, t, sorts, max);
    lm_text_add_str(h->out, "<tbody>\n");
    for (const lm_doc_row *r = t->first; r; r = r->next)
        put_row(h, t, r, w, max);
    lm_text_add_str(h->out, "</tbody></table></div>\n");
}

/* ---- derivations ---- */

static void put_glossary(lm_html *h, const lm_derivation *d)
{
    lm_text value = { 0 }, latex = { 0 };
    bool   any   = false;

    for (size_t i = 0; i < d->n_symbols && h->status == LM_OK; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        if (!any) {
            lm_text_add_str(h->out, "<div class=\"scroll\" tabindex=\"0\"><table "
                                    "class=\"glossary\">\n<thead><tr><th scope=\"col\">");
            lm_markup_text(h->out, _("symbol"));
            lm_text_add_str(h->out, "</th><th scope=\"col\" class=\"n\">");
            lm_markup_text(h->out, _("value"));
            lm_text_add_str(h->out, "</th><th scope=\"col\">");
            lm_markup_text(h->out, _("is"));
            lm_text_add_str(h->out, "</th></tr></thead>\n<tbody>\n");
        }
        any = true;
        lm_text_clear(&value);
        lm_text_clear(&latex);
        lm_quantity_write(s->value, LM_UNICODE, &value);
        lm_symbol_write(s, LM_LATEX, &latex);
        lm_text_add_str(h->out, "<tr><th scope=\"row\">");
        lm_html_formula(h, s->name, latex.data ? latex.data : "", false);
        lm_text_add_str(h->out, "</th><td class=\"n\">");
        lm_markup_text(h->out, value.data ? value.data : "");
        lm_text_add_str(h->out, "</td><td>");
        lm_markup_text(h->out, s->meaning);
        lm_text_add_str(h->out, "</td></tr>\n");
    }
    lm_text_add_str(h->out, any ? "</tbody></table></div>\n" : "");
    h->out->failed |= value.failed || latex.failed;
    lm_text_free(&value);
    lm_text_free(&latex);
}

typedef struct form_rows { lm_html *h; const lm_formula *s; bool first; } form_rows;

static void put_form(void *arg, const char *text, bool last)
{
    form_rows *r = arg;
    lm_html   *h = r->h;
    lm_text     name = { 0 };

    (void)last;
    if (h->status != LM_OK)
        return;
    lm_text_add_str(h->out, "<mtr><mtd>");
    if (r->first) {
        lm_symbol_write(r->s->symbol, LM_LATEX, &name);
        h->status = lm_mathml_row(name.data ? name.data : "", h->out, h->e);
        lm_text_free(&name);
    }
    lm_text_add_str(h->out, "</mtd><mtd><mo>=</mo>");
    if (h->status == LM_OK)
        h->status = lm_mathml_row(text, h->out, h->e);
    lm_text_add_str(h->out, "</mtd></mtr>\n");
    r->first = false;
}

static void put_step(lm_html *h, lm_derivation *d, const lm_formula *s)
{
    form_rows rows    = { h, s, true };
    lm_text    verdict = { 0 };

    if (s->heading) {
        lm_html_element(h, "p", "step-heading", s->title);
        return;
    }
    lm_formula_verdict(s, &verdict);
    lm_text_add_str(h->out, "<div class=\"step\"><p>");
    lm_markup_text(h->out, s->title ? s->title : "");
    if (verdict.data) {
        const char *text = verdict.data + strspn(verdict.data, " ");
        lm_text_printf(h->out, " <span class=\"%s\">", s->agrees ? "agrees" : "differs");
        lm_markup_text(h->out, text);
        lm_text_add_str(h->out, "</span>");
    }
    lm_text_add_str(
        h->out,
        "</p>\n<div class=\"math\" tabindex=\"0\"><math display=\"block\"><mtable class=\"aligned\">\n");
    lm_formula_forms(d, s, LM_LATEX, put_form, &rows);
    lm_text_add_str(h->out, "</mtable></math></div></div>\n");
    lm_text_free(&verdict);
}

void lm_html_derivation(lm_html *h, lm_derivation *x)
{
    lm_text_add_str(h->out, "<div class=\"derivation\">\n");
    put_glossary(h, x);
    for (size_t i = 0; i < x->n_steps && h->status == LM_OK; i++)
        put_step(h, x, &x->steps[i]);
    lm_text_add_str(h->out, "</div>\n");
}

/* ---- figures ---- */

void lm_html_figure(lm_html *h, const lm_block *b)
{
    lm_text_add_str(h->out, b->figure.graph ? "<figure class=\"flow\"" : "<figure");
    if (b->id)
        lm_html_attribute(h, "id", b->id);
    lm_text_add_str(h->out, ">\n<div class=\"scroll\" tabindex=\"0\">");
    if (!lm_doc_draw(b, h->out))
        lm_html_element(h, "pre", NULL, b->figure.text);
    lm_text_add_str(h->out, "</div>\n");
    if (b->title)
        lm_html_element(h, "figcaption", NULL, b->title);
    if (b->figure.graph && b->figure.graph->caption)
        lm_html_element(h, "p", "note", b->figure.graph->caption);
    lm_text_add_str(h->out, "</figure>\n");
}
