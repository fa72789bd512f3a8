/* chapter_topics.c - explanations of `lamina explain` as blocks of a report. */
#include <string.h>

#include "study/explain/explain.h"
#include "study/explain/letters.h"
#include "study/report/chapters.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/language.h"

/* ---- models that use a component: computed once for all cards ---- */

static const lm_users *users_of(lm_document *d, const lm_card *card)
{
    const lm_card *cards[64];
    size_t         n = 0, at = 0;

    for (; n < 64 && lm_card_at(n); n++) {
        cards[n] = lm_card_at(n);
        at       = cards[n] == card ? n : at;
    }
    lm_users *users = lm_shared(d)->users;
    if (users)
        return &users[at];
    users = lm_shared(d)->users = lm_alloc_zero(n, sizeof *users);
    if (!users) {
        d->failed = true;
        return NULL;
    }
    lm_status status = lm_find_users(cards, n, users, &d->error);
    if (status != LM_OK && d->status == LM_OK)
        d->status = status;
    return &users[at];
}

static void write_users(lm_document *d, const lm_card *card)
{
    const lm_users *u = users_of(d, card);

    if (!u || !u->of)
        return;
    if (u->n == u->of)
        return;                      /* used by all: no list needed */
    if (u->n) {
        lm_doc_fold(d, lm_doc_printf(d, "users-%s", card->topic),
                    lm_doc_printf(d, _("Who uses it: %u of %u presets"), u->n, u->of));
        lm_doc_text(d, u->names.data ? u->names.data : "");
        lm_doc_close(d);
    } else
        lm_doc_textf(d, _("Who uses it: none of %u presets."), u->of);
}

/* ---- judgements: marked as such ---- */

static void list(lm_document *d, char mark, const char *const *lines)
{
    for (int i = 0; i < LM_CARD_LINES && lines[i]; i++)
        lm_doc_item_of(d, mark, _(lines[i]));
}

static void write_judgement(lm_document *d, const lm_card *c)
{
    if (c->why[0] || c->gains[0] || c->costs[0]) {
        lm_doc_text(d, _("Motivation, gains and costs (qualitative):"));
        list(d, '-', c->why);
        list(d, '+', c->gains);
        list(d, '!', c->costs);
    }
    write_users(d, c);
}

/* ---- a topic ---- */

/* Return the section that already draws a diagram of the current model, because each is drawn only once;
 * NULL: none. */
static const lm_block *drawn_in(lm_document *d, const char *diagram)
{
    for (const lm_block *b = lm_document_next(NULL, d); b; b = lm_document_next((lm_block *)b, d))
        if (b->kind == LM_BLOCK_FIGURE && b->facts == d->facts && strcmp(b->figure.diagram, diagram) == 0) {
            for (b = b->parent; b->parent && b->kind != LM_BLOCK_SECTION;)
                b = b->parent;
            return b;
        }
    return NULL;
}

static void write_drawing(lm_document *d, const char *diagram, const char *output, bool closed)
{
    const lm_block *section = drawn_in(d, diagram);

    if (section) {
        lm_doc_notef(d, _("Drawn above, in “%s”."), section->title);
        return;
    }
    if (closed)
        lm_doc_fold(d, lm_doc_printf(d, "drawing-%s", diagram), _("Drawing"));
    lm_doc_diagram(d, diagram, output, NULL, NULL);
    if (closed)
        lm_doc_drop_empty(d);
}

static void write_formulas(lm_document *d, const lm_explanation *x)
{
    for (int i = 0; i < LM_CARD_LINES && x->formulas[i].unicode; i++)
        lm_doc_formula_of(d, NULL, _(x->formulas[i].unicode), x->formulas[i].latex);
}

/* Add what the letters of the formulas are, without those that the arithmetic lists. */
static void write_letters(lm_document *d, const lm_explanation *x)
{
    const lm_letter *letters[LM_MAX_LETTERS];
    size_t           n = lm_find_letters(x->formulas, x->d, letters);

    if (!n)
        return;
    lm_doc_table *t = lm_doc_table_of(d, lm_doc_printf(d, "letters-of-%s", x->card->topic), NULL, "ll",
                                      _("symbol"), _("is"));
    for (size_t i = 0; i < n; i++) {
        lm_next_row(t);
        lm_cell_math(t, letters[i]->unicode, letters[i]->latex);
        lm_cell(t, _(letters[i]->meaning));
    }
}

/* Add the letters and the arithmetic in one fold, so that a reader who opens it has both; "Letters" if there
 * is no arithmetic. */
static void write_arithmetic(lm_document *d, const lm_explanation *x, unsigned parts)
{
    bool derived = x->d && (parts & LM_TOPIC_ARITHMETIC);

    lm_doc_fold(d, lm_doc_printf(d, derived ? "derive-%s" : "letters-%s", x->card->topic),
                derived ? _("Symbols and arithmetic, step by step") : _("Letters"));
    if (parts & LM_TOPIC_LETTERS)
        write_letters(d, x);
    if (derived)
        lm_doc_derive(d, x->d);
    lm_doc_drop_empty(d);
}

/* Add the table of a topic, with the rows of this model highlighted. */
static void write_sheet(lm_document *d, const char *topic, const lm_sheet *s)
{
    lm_doc_fold(d, lm_doc_printf(d, "sheet-%s", topic), s->title);
    lm_doc_table *t = lm_doc_table_of(d, lm_doc_printf(d, "table-%s", topic), NULL, "");
    size_t        n = strlen(s->align);

    for (size_t i = 0; i < n; i++)
        lm_doc_column_of(t, s->columns[i], s->align[i] == 'r', NULL);
    for (size_t i = 0; i < s->n_rows; i++) {
        (s->rows[i].mine ? lm_strong_row : lm_next_row)(t);
        for (size_t k = 0; k < n; k++)
            lm_cell(t, s->rows[i].cells[k] ? s->rows[i].cells[k] : "");
    }
    if (s->note)
        lm_doc_note(d, s->note);
    lm_doc_close(d);
}

void lm_doc_topic(lm_document *d, const char *topic, unsigned parts, const char *output)
{
    static const lm_explain_options defaults;
    lm_explanation x = { .card = lm_card_named(topic, NULL), .f = d->facts, .o = &defaults };

    lm_find_traits(d->facts->ledger, &x.traits);
    if (!x.card || d->failed || d->status != LM_OK)
        return;
    d->status = lm_explanation_begin(&x, &d->error);
    if (d->status != LM_OK || !x.used)
        return;
    for (int i = 0; i < LM_CARD_LINES && x.card->sources[i]; i++)
        lm_doc_source(d, x.card->sources[i]);
    if (parts & LM_TOPIC_WHAT) {
        lm_doc_text(d, _(x.card->what));
        write_formulas(d, &x);
    }
    if (x.sheet.n_rows && (parts & LM_TOPIC_WHAT))
        write_sheet(d, topic, &x.sheet);
    if (x.card->diagram && (parts & LM_TOPIC_DIAGRAM))
        write_drawing(d, x.card->diagram, output, parts & LM_TOPIC_CLOSED);
    if (parts & (LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC))
        write_arithmetic(d, &x, parts);
    if (parts & LM_TOPIC_JUDGEMENT)
        write_judgement(d, x.card);
}

/* ---- the components of a model ---- */

/* The topics without a separate chapter. */
static const struct { const char *topic, *output; } components[] = {
    { "tokenizer", "O-5" }, { "embedding", "O-5" }, { "tying", "O-5" },    { "learned", "O-5" },   { "sinusoidal", "O-5" },
    { "attention", "O-5" }, { "mask", "O-5" },      { "gqa", "O-5, O-31" }, { "mla", "O-5, O-32" }, { "sparse", "O-5" }, { "swa", "O-5" },
    { "convolution", "O-5" }, { "recurrence", "O-5" }, { "scan", "O-5" },    { "rg-lru", "O-5" },
    { "alibi", "O-5" },     { "mlp", "O-5" },       { "swiglu", "O-5, O-34" }, { "relu", "O-5" },   { "gelu", "O-5" },
    { "silu", "O-5" },      { "moe", "O-5, O-35" }, { "router", "O-5, O-35" }, { "norm", "O-5, O-36" },
    { "residual", "O-5, O-30" }, { "quantization", "O-5" }, { "sampling", "O-5" }, { "kv-cache", "O-5" },
};

static bool is_used(const lm_document *d, const lm_card *c)
{
    lm_traits t;

    lm_find_traits(d->facts->ledger, &t);
    return !c->used || c->used(&t);
}

static void write_component(lm_document *d, const lm_card *c, const char *output)
{
    lm_doc_open(d, lm_doc_printf(d, "explain-%s", c->topic), output, _(c->title));
    /* small, and the diagram that most readers want */
    bool heads = c->diagram && strcmp(c->diagram, "heads") == 0;
    lm_doc_topic(d, c->topic,
                 LM_TOPIC_WHAT | LM_TOPIC_LETTERS | LM_TOPIC_DIAGRAM | LM_TOPIC_ARITHMETIC |
                     LM_TOPIC_JUDGEMENT | (heads ? 0 : LM_TOPIC_CLOSED),
                 NULL);
    lm_doc_close(d);
}

void lm_chapter_components(lm_document *d)
{
    lm_text missing = { 0 };

    lm_doc_open(d, "components", "O-5", _("Components explained"));
    lm_doc_text(d, _("Each component with its formula, this model's numbers, a diagram and its purpose."));
    for (size_t i = 0; i < sizeof components / sizeof *components; i++) {
        const lm_card *c = lm_card_named(components[i].topic, NULL);
        if (c && is_used(d, c))
            write_component(d, c, components[i].output);
        else if (c)
            lm_text_printf(&missing, "%s%s", missing.size ? ", " : "", _(c->title));
    }
    if (missing.size)
        lm_doc_textf(d, _("Not in this model: %s."), missing.data);
    d->failed |= missing.failed;
    lm_text_free(&missing);
    lm_doc_close(d);
}

/* ---- sources ---- */

void lm_doc_source(lm_document *d, const char *source)
{
    for (size_t i = 0; i < d->n_sources; i++)
        if (strcmp(d->sources[i], source) == 0)
            return;
    if (d->n_sources < LM_DOC_SOURCES)
        d->sources[d->n_sources++] = source;
}

void lm_chapter_sources(lm_document *d)
{
    lm_doc_open(d, "sources", NULL, _("Sources"));
    lm_doc_textf(d, _("The model's own numbers: %s."), lm_facts_text(d->facts, "model.source"));
    for (size_t i = 0; i < d->n_sources; i++)
        lm_doc_item_of(d, '-', d->sources[i]);
    lm_doc_close(d);
}
