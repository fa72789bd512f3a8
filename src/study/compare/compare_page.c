/* compare_page.c - write a comparison for a terminal. */
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/page/prose.h"
#include "base/columns.h"

enum { LABEL = 25 };

static void put_title(const lm_comparison *c, lm_text *out)
{
    if (c->n > 6) {
        lm_text_printf(out, _("%zu models\n"), c->n);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        lm_text_printf(out, "%s%s", i ? "  ·  " : "", c->name[i]);
    lm_text_add_char(out, '\n');
}

/* Return whether the row repeats an earlier one. */
static bool is_repeated(const lm_comparison *c, uint32_t row)
{
    for (uint32_t k = 0; k < row; k++)
        if (strcmp(c->rows[k].label, c->rows[row].label) == 0 ||
            (c->rows[row].path && c->rows[k].path && strcmp(c->rows[k].path, c->rows[row].path) == 0))
            return true;
    return false;
}

/* ---- tables: a column per model ---- */

typedef struct columns { unsigned label, value[LM_COMPARED]; } columns;

static void widen(unsigned *width, const char *text)
{
    unsigned n = lm_text_columns(text);

    *width = n > *width ? n : *width;
}

static columns measure(lm_comparison *c, const bool *shown)
{
    columns w = { .label = LABEL };

    for (size_t i = 0; i < c->n; i++) {
        w.value[i] = 12;
        widen(&w.value[i], c->name[i]);
        for (uint32_t r = 0; r < c->n_rows; r++)
            if (shown[r])
                widen(&w.value[i], lm_compared_text(c, &c->rows[r].value[i]));
    }
    return w;
}

static void put_head(const lm_comparison *c, const columns *w, const char *title, lm_text *out)
{
    lm_text_add_str(out, "\n  ");
    lm_put(out, title, w->label);
    for (size_t i = 0; i < c->n; i++) {
        lm_text_add_str(out, "  ");
        lm_put_right(out, c->name[i], w->value[i]);
    }
    lm_text_add_char(out, '\n');
}

static void put_row(lm_comparison *c, const columns *w, const lm_comparison_row *r, lm_text *out)
{
    double ratio;

    lm_text_add_str(out, "  ");
    lm_put(out, lm_compare_printf(c, "%s%s", _(r->label), r->rule ? " *" : ""), w->label);
    for (size_t i = 0; i < c->n; i++) {
        lm_text_add_str(out, "  ");
        lm_put_right(out, lm_compared_text(c, &r->value[i]), w->value[i]);
    }
    if (c->n == 2 && lm_compared_change(r, &ratio))
        lm_text_printf(out, "  ×%-6.3g %+.1f %%", ratio, 100 * (ratio - 1));
    lm_text_add_char(out, '\n');
}

static void put_section(lm_comparison *c, const columns *w, const lm_comparison_section *s, const bool *shown,
                        lm_text *out)
{
    bool        any = false, qualitative = false;
    const char *note;

    for (uint32_t r = s->first; r < s->end; r++)
        if (shown[r]) {
            if (!any)
                put_head(c, w, _(s->title), out);
            put_row(c, w, &c->rows[r], out);
            any = true;
            qualitative |= c->rows[r].rule != NULL;
        }
    if (qualitative)
        lm_text_printf(out, "  %s\n", _("* qualitative, derived by a rule"));
    for (size_t i = 0; any && (note = lm_compare_note(c, s, i)); i++) {
        lm_text_add_str(out, "  ");
        lm_put_prose(out, note, 2, 2, 96);
    }
}

/* ---- equal values ---- */

/* Write "label: value · …", wrapped at the end of the line; a label is not repeated. */
static void put_same(lm_comparison *c, lm_text *out)
{
    unsigned at   = 0;
    bool     any  = false;

    /* the last section summarises the others */
    for (uint32_t r = 0; r < c->sections[c->n_sections - 1].first; r++) {
        const lm_comparison_row *row   = &c->rows[r];
        const lm_compared       *value = &row->value[0];
        if (!row->same || is_repeated(c, r) || !(value->word || value->fact))
            continue;
        const char *text = lm_compare_printf(c, _("%s: %s"), _(row->label), lm_compared_text(c, value));
        unsigned    n    = lm_text_columns(text);
        if (!any)
            lm_text_printf(out, "\n  %s\n", _("the same"));
        if (!any || at + n + 3 > 96) {
            lm_text_printf(out, "%s    %s", any ? "\n" : "", text);
            at = 4 + n;
        } else {
            lm_text_printf(out, " · %s", text);
            at += n + 3;
        }
        any = true;
    }
    if (any)
        lm_text_add_char(out, '\n');
}

/* ---- reading, timeline, trends ---- */

static void put_readings(const lm_comparison *c, lm_text *out)
{
    if (c->n_readings)
        lm_text_printf(out, "\n  %s\n", _("reading (qualitative, derived by rules from the figures above)"));
    for (uint32_t i = 0; i < c->n_readings; i++) {
        lm_text_add_str(out, "  - ");
        lm_put_prose(out, c->readings[i].text, 4, 4, 96);
    }
}

void lm_compare_timeline_text(const lm_comparison *c, unsigned indent, lm_text *out)
{
    unsigned title = 0, word[LM_STRANDS] = { 0 };

    for (uint32_t i = 0; i < c->n_events; i++) {
        widen(&title, c->events[i].title);
        for (uint32_t s = 0; s < LM_STRANDS; s++)
            widen(&word[s], _(lm_strand_word(&c->events[i], s)));
    }
    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        lm_text_printf(out, "%*s%s  %s  ", (int)indent, "", e->date,
                       lm_event_stands_out(c, e) ? "▶"
                       : e->published            ? "○"
                                                 : "●");
        lm_put(out, e->title, title);
        for (uint32_t s = 0; s < LM_STRANDS; s++) {
            lm_text_add_str(out, "  ");
            lm_put(out, _(lm_strand_word(e, s)), s + 1 < LM_STRANDS ? word[s] : 0);
        }
        lm_text_add_char(out, '\n');
    }
    lm_text_printf(out, "%*s%s\n", (int)indent, "",
                   _("● derived from the program, ○ as published; month of first "
                     "publication"));
}

void lm_compare_trends_text(const lm_comparison *c, unsigned indent, lm_text *out)
{
    for (uint32_t s = 0; s < LM_STRANDS; s++) {
        lm_text line = { 0 };
        for (uint32_t i = 0; i < c->n_events; i++)
            if (lm_strand_new(c, s, i))
                lm_text_printf(&line, "%s%.4s %s (%s)", line.size ? " → " : "", c->events[i].date,
                               _(lm_strand_word(&c->events[i], s)), c->events[i].title);
        lm_text_printf(out, "%*s", (int)indent, "");
        lm_put(out, _(lm_strand_name(s)), 11);
        lm_put_prose(out, line.data ? line.data : "", indent + 11, indent + 11, 96);
        out->failed |= line.failed;
        lm_text_free(&line);
    }
}

/* ---- page ---- */

static void put_history(const lm_comparison *c, const char *view, lm_text *out)
{
    bool all = strcmp(view, "all") == 0 || strcmp(view, "history") == 0;

    if (all || strcmp(view, "timeline") == 0) {
        lm_text_printf(out, "\n  %s\n", _("timeline"));
        lm_compare_timeline_text(c, 2, out);
    }
    if (all || strcmp(view, "trends") == 0) {
        lm_text_printf(out, "\n  %s\n", _("trends: first of these models with each feature"));
        lm_compare_trends_text(c, 2, out);
    }
}

/* Return whether a section is shown without a view: for two models, what differs; for more, a summary and the
 * costs. */
static bool is_default(const lm_comparison *c, const lm_comparison_section *s)
{
    bool summary = strcmp(s->name, "summary") == 0;

    if (c->n <= 2)
        return !summary;
    return summary || strcmp(s->name, "parameters") == 0 || strcmp(s->name, "kv") == 0 ||
           strcmp(s->name, "flops") == 0;
}

void lm_compare_page(lm_comparison *c, const lm_compare_options *o, lm_text *out)
{
    const char *view = o->view ? o->view : c->n > 1 ? "" : "all";
    bool        all = strcmp(view, "all") == 0;
    bool        shown[LM_MAX_ROWS] = { false };

    for (uint32_t i = 0; i < c->n_sections; i++)
        for (uint32_t r = c->sections[i].first; r < c->sections[i].end; r++)
            shown[r] = *view ? all || strcmp(view, c->sections[i].name) == 0
                             : is_default(c, &c->sections[i]) &&
                                   (c->n > 2 || (!c->rows[r].same && !is_repeated(c, r)));
    columns w = measure(c, shown);
    put_title(c, out);
    if (!*view)
        put_section(c, &w, &c->sections[c->n_sections - 1], shown, out);
    for (uint32_t i = 0; i + !*view < c->n_sections; i++)
        put_section(c, &w, &c->sections[i], shown, out);
    if (!*view && c->n == 2)
        put_same(c, out);
    if (!*view || all || strcmp(view, "reading") == 0)
        put_readings(c, out);
    if (*view)
        put_history(c, view, out);
    if (!*view && o->more)
        lm_text_printf(out, "\n  %s  %s\n", _("more"), o->more);
}
