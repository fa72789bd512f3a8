/* explain_write.c - write explanations: for terminals, as Markdown, as JSON. */
#include <jansson.h>
#include <string.h>

#include "study/explain/explain.h"
#include "study/explain/letters.h"
#include "study/facts/figure.h"
#include "study/page/prose.h"
#include "base/columns.h"
#include "base/jsontext.h"
#include "base/number.h"

/* Append what the model does instead: "attention GQA, positions RoPE+llama3, MLP SwiGLU, norms RMSNorm
 * (Pre)". */
static void put_instead(const lm_explanation *x, lm_text *out)
{
    char attention[64], mlp[64];

    lm_attention_name(&x->traits, attention, sizeof attention);
    lm_mlp_name(&x->traits, mlp, sizeof mlp);
    lm_text_printf(out,
                   x->traits.tied ? _("attention %s, positions %s, MLP %s, head tied")
                                  : _("attention %s, positions %s, MLP %s, untied head"),
                   _(attention), _(lm_position_word(&x->traits).text), _(mlp));
}

/* ---- terminal ---- */

static unsigned columns_of(const lm_explanation *x)
{
    return x->o->columns ? x->o->columns : 80;
}

static void heading(lm_text *out, const char *text)
{
    lm_text_printf(out, "\n  %s\n", text);
}

static void bullets(const lm_explanation *x, const char *const *lines, const char *mark, lm_text *out)
{
    for (int i = 0; i < LM_CARD_LINES && lines[i]; i++) {
        lm_text_printf(out, "    %s ", mark);
        lm_put_prose(out, _(lines[i]), 6, 6, columns_of(x));
    }
}

static void numbers(const lm_explanation *x, lm_text *out)
{
    heading(out, x->o->example ? _("with numbers") : _("with this model's numbers"));
    lm_glossary_text(x->d, 4, out);
    lm_text_add_char(out, '\n');
    for (size_t i = 0; i < x->d->n_steps; i++)
        lm_formula_text(x->d, &x->d->steps[i], 4, out);
}

static void users(const lm_explanation *x, lm_text *out)
{
    heading(out, _("who uses it"));
    lm_text_add_str(out, "    ");
    if (x->users.n == x->users.of) {
        lm_text_printf(out, _("all %u presets\n"), x->users.of);
        return;
    }
    lm_text_printf(out, x->users.n ? _("%u of %u presets:\n") : _("%u of %u presets\n"), x->users.n,
                   x->users.of);
    if (x->users.n) {
        lm_text_add_str(out, "    ");
        lm_put_prose(out, x->users.names.data, 4, 4, columns_of(x));
    }
}

/* ---- table at the beginning of a page ---- */

static bool has_table(const lm_explanation *x)
{
    return x->d && x->card->table[0].title;
}

/* One row, with its numbers as text. */
typedef struct table_row { const char *title; char count[LM_FIG], rounded[LM_FIG], off[LM_FIG]; } table_row;

static table_row row_of(const lm_explanation *x, const lm_card_row *r)
{
    double    n   = lm_derived(x->d, r->count).x;
    table_row row = { .title = _(r->title) };

    lm_fig_count(row.count, n > 0 ? (uint64_t)(n + 0.5) : 0);
    lm_fig_short(row.rounded, n);
    if (r->off)
        lm_print(row.off, LM_FIG, "%+.2f %%", lm_derived(x->d, r->off).x);
    return row;
}

static void table_text(const lm_explanation *x, lm_text *out)
{
    lm_text_add_str(out, "\n  ");
    lm_put(out, "", 12);
    lm_put_right(out, _("parameters"), 19);
    lm_text_add_str(out, "            ");
    lm_put_right(out, _("off by"), 12);
    lm_text_add_char(out, '\n');
    for (int i = 0; i < LM_CARD_LINES && x->card->table[i].title; i++) {
        table_row r = row_of(x, &x->card->table[i]);
        lm_text_add_str(out, "  ");
        lm_put(out, r.title, 12);
        lm_put_right(out, r.count, 19);
        lm_put_right(out, r.rounded, 12);
        lm_put_right(out, r.off, *r.off ? 12 : 0);
        lm_text_add_char(out, '\n');
    }
}

static void table_markdown(const lm_explanation *x, lm_text *out)
{
    lm_text_printf(out, "| | %s | | %s |\n|---|---:|---:|---:|\n", _("parameters"), _("off by"));
    for (int i = 0; i < LM_CARD_LINES && x->card->table[i].title; i++) {
        table_row r = row_of(x, &x->card->table[i]);
        lm_text_printf(out, "| %s | %s | %s | %s |\n", r.title, r.count, r.rounded, r.off);
    }
    lm_text_add_char(out, '\n');
}

/* ---- page ---- */

static void title(const lm_explanation *x, lm_text *out)
{
    lm_text_printf(out, "%s · %s\n", _(x->card->title), x->f->s.name);
    if (x->o->example)
        lm_text_printf(out, "%s\n", x->o->example);
    if (has_table(x))
        table_text(x, out);
    lm_text_add_str(out, "\n  ");
    lm_put_prose(out, _(x->card->what), 2, 2, columns_of(x));
}

static void not_used(const lm_explanation *x, lm_text *out)
{
    lm_text instead = { 0 }, sentence = { 0 };

    put_instead(x, &instead);
    lm_text_printf(&sentence, _("%s has no such component: %s."), x->f->s.name,
                   instead.data ? instead.data : "");
    lm_text_add_str(out, "\n  ");
    if (!sentence.failed)
        lm_put_prose(out, sentence.data, 2, 2, columns_of(x));
    lm_text_free(&instead);
    lm_text_free(&sentence);
}

void lm_explain_text(const lm_explanation *x, lm_text *out)
{
    const lm_card *c = x->card;

    title(x, out);
    if (x->formulas[0].unicode)
        lm_text_add_char(out, '\n');
    for (int i = 0; i < LM_CARD_LINES && x->formulas[i].unicode; i++)
        lm_text_printf(out, "      %s\n", _(x->formulas[i].unicode));
    if (!x->used)
        not_used(x, out);
    lm_sheet_put_text(&x->sheet, 2, columns_of(x), out);
    if (x->d)
        numbers(x, out);
    if (x->diagram.data) {
        heading(out, _("drawn"));
        lm_put_lines(out, x->diagram.data, 4);
    }
    if (c->why[0]) {
        heading(out, _("why (qualitative)"));
        bullets(x, c->why, "·", out);
    }
    if (c->gains[0] || c->costs[0]) {
        heading(out, _("gains and costs (qualitative)"));
        bullets(x, c->gains, "+", out);
        bullets(x, c->costs, "−", out);
    }
    users(x, out);
    if (c->sources[0]) {
        heading(out, _("sources"));
        bullets(x, c->sources, "·", out);
    }
}

/* ---- Markdown ---- */

static void letters_markdown(const lm_explanation *x, lm_text *out)
{
    const lm_letter *letters[LM_MAX_LETTERS];
    size_t           n = lm_find_letters(x->formulas, x->d, letters);

    if (n)
        lm_text_printf(out, "\n| %s | %s |\n|---|---|\n", _("symbol"), _("is"));
    for (size_t i = 0; i < n; i++)
        lm_text_printf(out, "| $%s$ | %s |\n", letters[i]->latex, _(letters[i]->meaning));
}

static void list(const char *const *lines, const char *word, lm_text *out)
{
    for (int i = 0; i < LM_CARD_LINES && lines[i]; i++)
        lm_text_printf(out, "- %s%s\n", word, _(lines[i]));
}

void lm_explain_markdown(const lm_explanation *x, lm_text *out)
{
    const lm_card *c = x->card;
    lm_text         instead = { 0 };

    lm_text_printf(out, "# %s: %s\n\n", _(c->title), x->f->s.name);
    if (x->o->example)
        lm_text_printf(out, "*%s*\n\n", x->o->example);
    if (has_table(x))
        table_markdown(x, out);
    lm_text_printf(out, "%s\n", _(c->what));
    for (int i = 0; i < LM_CARD_LINES && x->formulas[i].latex; i++)
        lm_text_printf(out, "\n```math\n%s\n```\n", x->formulas[i].latex);
    letters_markdown(x, out);
    if (!x->used) {
        put_instead(x, &instead);
        lm_text_printf(out, _("\n**%s has no such component**: %s.\n"), x->f->s.name,
                       instead.data ? instead.data : "");
        lm_text_free(&instead);
    }
    lm_sheet_put_markdown(&x->sheet, out);
    if (x->d) {
        lm_text_printf(out, "\n## %s\n\n",
                       x->o->example ? _("With numbers") : _("With this model's numbers"));
        lm_glossary_markdown(x->d, out);
        for (size_t i = 0; i < x->d->n_steps; i++)
            lm_formula_latex(x->d, &x->d->steps[i], out);
    }
    if (x->mermaid.data)
        lm_text_printf(out, "\n## %s\n\n```mermaid\n%s```\n", _("Drawn"), x->mermaid.data);
    if (c->why[0]) {
        lm_text_printf(out, "\n## %s\n\n*%s*\n\n", _("Why"), _("Qualitative."));
        list(c->why, "", out);
    }
    if (c->gains[0] || c->costs[0]) {
        lm_text_printf(out, "\n## %s\n\n*%s*\n\n", _("Gains and costs"), _("Qualitative."));
        list(c->gains, "**+** ", out);
        list(c->costs, "**−** ", out);
    }
    lm_text_printf(out, "\n## %s\n\n", _("Who uses it"));
    if (x->users.n == x->users.of || !x->users.n)
        lm_text_printf(out, _("%u of %u presets.\n"), x->users.n, x->users.of);
    else
        lm_text_printf(out, _("%u of %u presets: %s.\n"), x->users.n, x->users.of, x->users.names.data);
    if (c->sources[0]) {
        lm_text_printf(out, "\n## %s\n\n", _("Sources"));
        list(c->sources, "", out);
    }
}

/* ---- JSON ---- */

/* Free memory that jansson allocated, with its own allocator. */
static void jansson_free(char *p)
{
    json_free_t release;

    json_get_alloc_funcs(NULL, &release);
    release(p);
}

static json_t *strings(const char *const *lines)
{
    json_t *a = json_array();

    for (int i = 0; i < LM_CARD_LINES && lines[i]; i++)
        json_array_append_new(a, json_string(lines[i]));
    return a;
}

static json_t *quantity(lm_symbol_value q)
{
    return q.whole ? json_integer(q.n) : json_real(q.x);
}

static json_t *expression(const lm_expr *x, lm_notation notation, bool with_numbers)
{
    lm_text b = { 0 };

    lm_expr_write(x, notation, with_numbers, &b);
    json_t *s = json_string(b.data ? b.data : "");
    lm_text_free(&b);
    return s;
}

static json_t *sheet_json(const lm_sheet *s)
{
    json_t *columns = json_array(), *rows = json_array();
    size_t  n = strlen(s->align);

    for (size_t i = 0; i < n; i++)
        json_array_append_new(columns, json_string(s->columns[i]));
    for (size_t i = 0; i < s->n_rows; i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < n; k++)
            json_array_append_new(row, json_string(s->rows[i].cells[k] ? s->rows[i].cells[k] : ""));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s?, s:o, s:o}", "title", s->title, "note", s->note, "columns", columns, "rows",
                     rows);
}

static json_t *step_json(const lm_formula *s)
{
    if (s->heading)
        return json_pack("{s:s}", "heading", s->title);
    json_t *j = json_pack("{s:s, s:s?, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:o, s:s}", "name",
                          s->symbol->name, "title", s->title, "symbols", "unicode",
                          expression(s->x, LM_UNICODE, false), "latex", expression(s->x, LM_LATEX, false),
                          "ascii", expression(s->x, LM_ASCII, false), "numbers", "unicode",
                          expression(s->x, LM_UNICODE, true), "latex", expression(s->x, LM_LATEX, true),
                          "ascii", expression(s->x, LM_ASCII, true), "value", quantity(lm_expr_value(s->x)),
                          "unit", lm_unit_name(s->unit));
    if (s->fact) {
        json_object_set_new(j, "fact", json_string(s->path));
        json_object_set_new(j, "agrees", json_boolean(s->agrees));
    }
    return j;
}

static json_t *derivation_json(const lm_derivation *d)
{
    json_t *symbols = json_array(), *steps = json_array();

    for (size_t i = 0; i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (s->used && s->meaning)
            json_array_append_new(symbols,
                                  json_pack("{s:s, s:s?, s:s, s:o}", "name", s->name, "latex", s->latex,
                                            "meaning", s->meaning, "value", quantity(s->value)));
    }
    for (size_t i = 0; i < d->n_steps; i++)
        json_array_append_new(steps, step_json(&d->steps[i]));
    return json_pack("{s:o, s:o}", "symbols", symbols, "steps", steps);
}

lm_status lm_explain_json(const lm_explanation *x, lm_text *out, lm_error *e)
{
    const lm_card *c = x->card;
    json_t        *formulas = json_array(), *j;

    for (int i = 0; i < LM_CARD_LINES && x->formulas[i].unicode; i++)
        json_array_append_new(formulas, json_pack("{s:s, s:s}", "unicode", x->formulas[i].unicode, "latex",
                                                  x->formulas[i].latex));
    j = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:s, s:o, s:o, s:o, s:{s:b, s:o, s:o, s:o}, s:{s:i, s:i, s:s}, s:o}",
        "topic", c->topic, "title", c->title, "model", x->f->s.name, "example", x->o->example != NULL, "used",
        x->used, "what", c->what, "formulas", formulas, "derivation",
        x->d ? derivation_json(x->d) : json_null(), "diagram",
        x->mermaid.data ? json_pack("{s:o, s:o}", "mermaid", lm_json_text(x->mermaid.data, x->mermaid.size),
                                    "text", lm_json_text(x->diagram.data, x->diagram.size))
                        : json_null(),
        "judgement", "qualitative", 1, "why", strings(c->why), "gains", strings(c->gains), "costs",
        strings(c->costs), "users", "presets", (int)x->users.of, "using", (int)x->users.n, "names",
        x->users.names.data ? x->users.names.data : "", "sources", strings(c->sources));
    if (j && x->sheet.n_rows)
        json_object_set_new(j, "table", sheet_json(&x->sheet));
    char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    json_decref(j);
    if (!text)
        return lm_fail_memory(e, "an explanation", 0);
    lm_text_add_str(out, text);
    lm_text_add_char(out, '\n');
    jansson_free(text);
    return LM_OK;
}
