/* compare_markdown.c - write a comparison as Markdown: a table per output, Mermaid diagrams. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"

/* Write a cell; a bar in the text would end it. */
static void put_cell(const char *text, lm_text *out)
{
    lm_text_add_char(out, ' ');
    for (; *text; text++) {
        if (*text == '|' || *text == '<' || *text == '*' || *text == '_')
            lm_text_add_char(out, '\\');
        lm_text_add_char(out, *text);
    }
    lm_text_add_str(out, " |");
}

static void put_rule(const char *text, size_t n, lm_text *out)
{
    lm_text_add_str(out, "|---|");
    for (size_t i = 0; i < n; i++)
        lm_text_add_str(out, text);
    lm_text_add_char(out, '\n');
}

/* ---- sections ---- */

static void put_section(lm_comparison *c, const lm_comparison_section *s, lm_text *out)
{
    double      ratio;
    bool        qualitative = false;
    const char *note;

    lm_text_printf(out, "\n## %s\n\n| |", _(s->title));
    for (size_t i = 0; i < c->n; i++)
        put_cell(c->name[i], out);
    if (c->n == 2)
        put_cell(_("change"), out);
    lm_text_add_char(out, '\n');
    put_rule("---:|", c->n + (c->n == 2), out);
    for (uint32_t r = s->first; r < s->end; r++) {
        const lm_comparison_row *row = &c->rows[r];
        qualitative |= row->rule != NULL;
        lm_text_add_char(out, '|');
        put_cell(lm_compare_printf(c, "%s%s", _(row->label), row->rule ? " †" : ""), out);
        for (size_t i = 0; i < c->n; i++)
            put_cell(lm_compared_text(c, &row->value[i]), out);
        if (c->n == 2 && lm_compared_change(row, &ratio))
            lm_text_printf(out, " ×%.3g, %+.1f %% |", ratio, 100 * (ratio - 1));
        else if (c->n == 2)
            lm_text_printf(out, " %s |", row->same ? C_("values", "same") : "");
        lm_text_add_char(out, '\n');
    }
    if (qualitative)
        lm_text_printf(out, "\n† %s\n", _("qualitative, by rule"));
    for (size_t i = 0; (note = lm_compare_note(c, s, i)); i++)
        lm_text_printf(out, "\n%s\n", note);
}

/* Write the forms of blocks and the models that use them. */
static void put_blocks(lm_comparison *c, lm_text *out)
{
    lm_text_printf(out, "\n## %s\n\n%s\n|---|---|---|\n", _("Pre-norm and post-norm"),
                   _("| position | block | models |"));
    for (size_t i = 0; i < c->n; i++) {
        const char *place = lm_compare_text(c, i, "architecture.norm_position");
        const char *names = lm_compare_sharing(c, i, "architecture.norm_position");
        if (names)
            lm_text_printf(out, "| %s | $%s$ | %s |\n", _(place), lm_norm_form(c->traits[i].norm_position),
                           names);
    }
}

static void put_readings(const lm_comparison *c, lm_text *out)
{
    lm_text_printf(out, "\n## %s\n\n%s\n\n", _("Reading"),
                   _("Qualitative; derived by rules from the figures above."));
    for (uint32_t i = 0; i < c->n_readings; i++)
        lm_text_printf(out, "- *%s* – %s\n", _(c->readings[i].rule), c->readings[i].text);
}

/* ---- Mermaid ---- */

/* Replace characters that are special in Mermaid, such as colons and quotes. */
static void put_mermaid(const char *text, lm_text *out)
{
    for (; *text; text++)
        lm_text_add_char(out, *text == ':' || *text == '"' || *text == ';' || *text == '#' ? ' ' : *text);
}

void lm_compare_timeline_mermaid(const lm_comparison *c, lm_text *out)
{
    lm_text_printf(out, "timeline\n    title %s\n", _("Models by the month of their first publication"));
    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        bool first = i == 0 || strncmp(c->events[i - 1].date, e->date, 4) != 0;
        if (first)
            lm_text_printf(out, "    %.4s ", e->date);
        else
            lm_text_add_str(out, "         ");
        lm_text_add_str(out, lm_event_stands_out(c, e) ? ": ▶ " : ": ");
        put_mermaid(e->title, out);
        for (uint32_t s = 0; s < LM_STRANDS; s++) {
            lm_text_add_str(out, "<br>");
            put_mermaid(_(lm_strand_word(e, s)), out);
        }
        lm_text_add_char(out, '\n');
    }
}

static void put_timeline(const lm_comparison *c, lm_text *out)
{
    lm_text_printf(out, "\n## %s\n\n```mermaid\n", _("Timeline"));
    lm_compare_timeline_mermaid(c, out);
    lm_text_printf(out, "```\n\n%s\n|---|---|---|---|---|---|---|\n",
                   _("| month | model | attention | MLP | norm | position | source |"));
    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        lm_text_printf(out, "| %s | %s%s%s | %s | %s | %s | %s | %s |\n", e->date,
                       lm_event_stands_out(c, e) ? "▶ " : "", e->title, e->published ? " ‡" : "",
                       _(e->attention), _(e->mlp), _(e->norm), _(e->position), e->source);
    }
    lm_text_printf(out, "\n‡ %s\n", _("as published; all others derived from the program"));
}

void lm_compare_trends_mermaid(const lm_comparison *c, lm_text *out)
{
    lm_text_add_str(out, "graph LR\n");
    for (uint32_t s = 0; s < LM_STRANDS; s++) {
        unsigned n = 0;
        lm_text_printf(out, "    subgraph S%u[\"%s\"]\n        direction LR\n", s, _(lm_strand_name(s)));
        for (uint32_t i = 0; i < c->n_events; i++) {
            if (!lm_strand_new(c, s, i))
                continue;
            lm_text_printf(out, "        N%u_%u[\"%.4s ", s, n, c->events[i].date);
            put_mermaid(_(lm_strand_word(&c->events[i], s)), out);
            lm_text_add_str(out, "<br>");
            put_mermaid(c->events[i].title, out);
            lm_text_add_str(out, "\"]\n");
            if (n)
                lm_text_printf(out, "        N%u_%u --> N%u_%u\n", s, n - 1, s, n);
            n++;
        }
        lm_text_add_str(out, "    end\n");
    }
}

static void put_trends(const lm_comparison *c, lm_text *out)
{
    lm_text_printf(out, "\n## %s\n\n```mermaid\n", _("Trends"));
    lm_compare_trends_mermaid(c, out);
    lm_text_printf(out, "```\n\n%s\n", _("First of these models with each feature."));
}

void lm_compare_markdown(lm_comparison *c, const lm_compare_options *o, lm_text *out)
{
    const char *view = o->view ? o->view : "all";
    bool        all = strcmp(view, "all") == 0;

    lm_text_add_str(out, "# ");
    for (size_t i = 0; i < c->n; i++)
        lm_text_printf(out, "%s%s", i ? ", " : "", c->name[i]);
    lm_text_add_char(out, '\n');
    for (uint32_t i = 0; i < c->n_sections; i++) {
        if (!all && strcmp(view, c->sections[i].name) != 0)
            continue;
        put_section(c, &c->sections[i], out);
        if (strcmp(c->sections[i].name, "norm") == 0)
            put_blocks(c, out);
    }
    if (all || strcmp(view, "reading") == 0)
        put_readings(c, out);
    all |= strcmp(view, "history") == 0;
    if (all || strcmp(view, "timeline") == 0)
        put_timeline(c, out);
    if (all || strcmp(view, "trends") == 0)
        put_trends(c, out);
}
