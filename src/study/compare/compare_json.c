/* compare_json.c - write a comparison as JSON. */
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/facts/figure.h"

static void put_value(const lm_compared *x, lm_text *out)
{
    if (x->word)
        lm_fact_json_text(x->word, out);
    else if (x->fact)
        lm_fact_json(x->fact, 0, out);
    else
        lm_text_add_str(out, "null");
}

static void put_member(const char *name, const char *text, lm_text *out)
{
    lm_text_printf(out, "\"%s\": ", name);
    if (text)
        lm_fact_json_text(text, out);
    else
        lm_text_add_str(out, "null");
}

static void put_row(const lm_comparison *c, const lm_comparison_row *r, lm_text *out)
{
    const lm_fact *fact = NULL;
    double         ratio;
    char           figure[LM_FIG];

    for (size_t i = 0; i < c->n && !fact; i++)
        fact = r->value[i].fact;
    lm_text_add_str(out, "        {");
    put_member("label", r->label, out);
    lm_text_add_str(out, ", ");
    put_member("path", r->path, out);
    lm_text_add_str(out, ", ");
    put_member("unit", fact ? lm_unit_name(fact->unit) : "", out);
    lm_text_printf(out, ", \"same\": %s, \"qualitative\": %s, \"values\": [", r->same ? "true" : "false",
                   r->rule ? "true" : "false");
    for (size_t i = 0; i < c->n; i++) {
        lm_text_add_str(out, i ? ", " : "");
        put_value(&r->value[i], out);
    }
    lm_text_add_str(out, "], \"ratio\": ");
    if (c->n == 2 && lm_compared_change(r, &ratio))
        lm_text_add_str(out, lm_number_text(figure, ratio));
    else
        lm_text_add_str(out, "null");
    lm_text_add_char(out, '}');
}

/* Return whether a section is shown; `view` NULL: all are. */
static bool is_shown(const char *view, const char *name)
{
    return !view || strcmp(view, "all") == 0 || strcmp(view, name) == 0;
}

static void put_sections(const lm_comparison *c, const char *view, lm_text *out)
{
    bool any = false;

    for (uint32_t i = 0; i < c->n_sections; i++) {
        const lm_comparison_section *s = &c->sections[i];
        if (!is_shown(view, s->name))
            continue;
        lm_text_add_str(out, any ? ",\n    {" : ",\n  \"sections\": [\n    {");
        any = true;
        put_member("name", s->name, out);
        lm_text_add_str(out, ", ");
        put_member("outputs", s->output, out);
        lm_text_add_str(out, ", \"rows\": [\n");
        for (uint32_t r = s->first; r < s->end; r++) {
            put_row(c, &c->rows[r], out);
            lm_text_add_str(out, r + 1 < s->end ? ",\n" : "\n");
        }
        lm_text_add_str(out, "    ]}");
    }
    if (any)
        lm_text_add_str(out, "\n  ]");
}

static void put_readings(const lm_comparison *c, lm_text *out)
{
    lm_text_add_str(out, ",\n  \"reading\": [\n");
    for (uint32_t i = 0; i < c->n_readings; i++) {
        lm_text_add_str(out, "    {");
        put_member("rule", c->readings[i].rule, out);
        lm_text_add_str(out, ", ");
        put_member("text", c->readings[i].text, out);
        lm_text_printf(out, ", \"qualitative\": true}%s\n", i + 1 < c->n_readings ? "," : "");
    }
    lm_text_add_str(out, "  ]");
}

static void put_events(const lm_comparison *c, lm_text *out)
{
    lm_text_add_str(out, ",\n  \"timeline\": [\n");
    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        lm_text_add_str(out, "    {");
        put_member("date", e->date, out);
        lm_text_add_str(out, ", ");
        put_member("model", e->title, out);
        for (uint32_t s = 0; s < LM_STRANDS; s++) {
            lm_text_add_str(out, ", ");
            put_member(s == 1 ? "mlp" : lm_strand_name(s), lm_strand_word(e, s), out);
        }
        lm_text_printf(out, ", \"origin\": \"%s\", ", e->published ? "published" : "program");
        put_member("source", e->source, out);
        lm_text_printf(out, "}%s\n", i + 1 < c->n_events ? "," : "");
    }
    lm_text_add_str(out, "  ]");
}

static void put_trends(const lm_comparison *c, lm_text *out)
{
    lm_text_add_str(out, ",\n  \"trends\": {\n");
    for (uint32_t s = 0; s < LM_STRANDS; s++) {
        const char *separator = "";
        lm_text_printf(out, "    \"%s\": [", s == 1 ? "mlp" : lm_strand_name(s));
        for (uint32_t i = 0; i < c->n_events; i++) {
            if (!lm_strand_new(c, s, i))
                continue;
            lm_text_printf(out, "%s{", separator);
            put_member("word", lm_strand_word(&c->events[i], s), out);
            lm_text_add_str(out, ", ");
            put_member("date", c->events[i].date, out);
            lm_text_add_str(out, ", ");
            put_member("model", c->events[i].title, out);
            lm_text_add_char(out, '}');
            separator = ", ";
        }
        lm_text_printf(out, "]%s\n", s + 1 < LM_STRANDS ? "," : "");
    }
    lm_text_add_str(out, "  }");
}

void lm_compare_json(lm_comparison *c, const lm_compare_options *o, lm_text *out)
{
    bool history = o->view && strcmp(o->view, "history") == 0;

    lm_text_add_str(out, "{\n  \"schema\": \"lamina.compare/1\",\n  \"models\": [");
    for (size_t i = 0; i < c->n; i++) {
        lm_text_add_str(out, i ? ", " : "");
        lm_fact_json_text(c->name[i], out);
    }
    lm_text_add_char(out, ']');
    put_sections(c, o->view, out);
    if (is_shown(o->view, "reading"))
        put_readings(c, out);
    if (history || is_shown(o->view, "timeline"))
        put_events(c, out);
    if (history || is_shown(o->view, "trends"))
        put_trends(c, out);
    lm_text_add_str(out, "\n}\n");
}
