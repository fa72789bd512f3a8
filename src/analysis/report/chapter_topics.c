/* chapter_topics.c - what `lamina explain` knows, as blocks of a report. */
#include <string.h>

#include "analysis/explain/explain.h"
#include "analysis/report/chapters.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/language.h"

/* ---- who uses it: asked once for all cards ---- */

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

static void say_users(lm_document *d, const lm_card *card)
{
    const lm_users *u = users_of(d, card);

    if (!u || !u->of)
        return;
    if (u->n == u->of)
        return;                      /* what all do needs no list */
    if (u->n)
        lm_doc_textf(d, _("Who uses it: %u of %u presets: %s."), u->n, u->of, u->names.data ? u->names.data : "");
    else
        lm_doc_textf(d, _("Who uses it: none of %u presets."), u->of);
}

/* ---- judgement: marked as such ---- */

static void list(lm_document *d, char mark, const char *const *lines)
{
    for (int i = 0; i < LM_CARD_LINES && lines[i]; i++)
        lm_doc_item_of(d, mark, _(lines[i]));
}

static void say_judgement(lm_document *d, const lm_card *c)
{
    if (c->why[0] || c->gains[0] || c->costs[0]) {
        lm_doc_text(d, _("Motivation, gains and costs (qualitative):"));
        list(d, '-', c->why);
        list(d, '+', c->gains);
        list(d, '!', c->costs);
    }
    say_users(d, c);
}

/* ---- a topic ---- */

static void say_formulas(lm_document *d, const lm_explanation *x)
{
    for (int i = 0; i < LM_CARD_LINES && x->formulas[i].unicode; i++)
        lm_doc_formula_of(d, NULL, _(x->formulas[i].unicode), x->formulas[i].latex);
}

void lm_doc_topic(lm_document *d, const char *topic, unsigned parts, const char *output)
{
    static const lm_explain_options defaults;
    lm_explanation                  x = { .card = lm_card_named(topic), .f = d->facts, .o = &defaults };

    if (!x.card || d->failed || d->status != LM_OK)
        return;
    d->status = lm_explanation_begin(&x, &d->error);
    if (d->status != LM_OK || !x.used)
        return;
    for (int i = 0; i < LM_CARD_LINES && x.card->sources[i]; i++)
        lm_doc_source(d, x.card->sources[i]);
    if (parts & LM_TOPIC_WHAT) {
        lm_doc_text(d, _(x.card->what));
        say_formulas(d, &x);
    }
    if (x.d && (parts & LM_TOPIC_ARITHMETIC))
        lm_doc_derive(d, x.d);
    if (x.card->diagram && (parts & LM_TOPIC_DIAGRAM))
        lm_doc_diagram(d, x.card->diagram, output, NULL, NULL);
    if (parts & LM_TOPIC_JUDGEMENT)
        say_judgement(d, x.card);
}

/* ---- the components of a model ---- */

/* Those that have no chapter of their own. */
static const struct { const char *topic, *output; } components[] = {
    { "embedding", "O-5" }, { "tying", "O-5" },    { "attention", "O-5" }, { "gqa", "O-5, O-31" }, { "mla", "O-5, O-32" },
    { "swa", "O-5" },       { "alibi", "O-5" },    { "swiglu", "O-5, O-34" }, { "moe", "O-5, O-35" }, { "norm", "O-5, O-36" },
    { "residual", "O-5, O-30" }, { "quantization", "O-5" }, { "sampling", "O-5" }, { "kv-cache", "O-5" },
};

static bool is_used(const lm_document *d, const lm_card *c)
{
    lm_traits t;

    lm_find_traits(d->facts->ledger, &t);
    return !c->used || c->used(d->facts->s.program, &t);
}

static void say_component(lm_document *d, const lm_card *c, const char *output)
{
    lm_doc_open(d, lm_doc_keepf(d, "explain-%s", c->topic), output, _(c->title));
    lm_doc_topic(d, c->topic, LM_TOPIC_WHAT | LM_TOPIC_DIAGRAM, NULL);
    lm_doc_fold(d, lm_doc_keepf(d, "derive-%s", c->topic), _("The arithmetic, step by step"));
    lm_doc_topic(d, c->topic, LM_TOPIC_ARITHMETIC, NULL);
    lm_doc_drop_empty(d);
    lm_doc_topic(d, c->topic, LM_TOPIC_JUDGEMENT, NULL);
    lm_doc_close(d);
}

void lm_chapter_components(lm_document *d)
{
    lm_text missing = { 0 };

    lm_doc_open(d, "components", "O-5", _("Components explained"));
    lm_doc_text(d, _("Each component with its formula, this model's numbers, a diagram and its purpose."));
    for (size_t i = 0; i < sizeof components / sizeof *components; i++) {
        const lm_card *c = lm_card_named(components[i].topic);
        if (c && is_used(d, c))
            say_component(d, c, components[i].output);
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
