/* explain.c - assemble an explanation. */
#include "study/explain/explain.h"

#include <string.h>

#include "study/listing/listing_topic.h"

static lm_status unknown(const char *topic, lm_error *e)
{
    lm_text      list = { 0 };
    const char *near = NULL;
    size_t      min = SIZE_MAX;

    for (size_t i = 0; lm_card_at(i); i++) {
        size_t d = lm_edit_distance(topic, lm_card_at(i)->topic);
        lm_text_printf(&list, "%s%s", i ? " " : "", lm_card_at(i)->topic);
        if (d < min) {
            min = d;
            near  = lm_card_at(i)->topic;
        }
    }
    for (size_t i = 0; lm_topic_alias_at(i, NULL); i++) {
        size_t d = lm_edit_distance(topic, lm_topic_alias_at(i, NULL));
        if (d < min) {
            min = d;
            near  = lm_topic_alias_at(i, NULL);
        }
    }
    lm_fail(e, LM_USAGE, topic, LM_NO_OFFSET, "unknown topic; use %s", list.data ? list.data : "");
    lm_text_free(&list);
    return near && min <= 2 ? lm_fail_hint(e, "did you mean %s?", near) : LM_USAGE;
}

static lm_status draw(lm_explanation *x, lm_error *e)
{
    lm_explain_options o = *x->o;

    if (!x->card->diagram || !x->used)
        return LM_OK;
    o.form           = LM_FORM_TEXT;
    lm_status status = lm_diagram(x->f, x->card->diagram, &o, &x->diagram, e);
    if (status == LM_NOT_FOUND)
        return LM_OK;
    o.form = LM_FORM_MARKDOWN;
    return status == LM_OK ? lm_diagram(x->f, x->card->diagram, &o, &x->mermaid, e) : status;
}

static lm_status find_formulas(lm_explanation *x, lm_error *e)
{
    lm_text text = { 0 }, latex = { 0 };

    memcpy(x->formulas, x->card->formulas, sizeof x->formulas);
    if (x->card->special.when && x->card->special.when(&x->traits))
        x->formulas[0] = x->card->special.formula;
    if (!x->card->read_off)
        return LM_OK;
    x->card->read_off(x->f->ledger, &text, &latex);
    if (text.size && latex.size)
        x->formulas[0] = (lm_card_formula){ lm_arena_strdup(&x->f->arena, text.data),
                                            lm_arena_strdup(&x->f->arena, latex.data) };
    bool failed = text.failed || latex.failed || !x->formulas[0].unicode || !x->formulas[0].latex;
    lm_text_free(&text);
    lm_text_free(&latex);
    return failed ? lm_fail_memory(e, "an explanation", 0) : LM_OK;
}

lm_status lm_explanation_begin(lm_explanation *x, lm_error *e)
{
    LM_TRY(find_formulas(x, e));
    x->used = !x->card->used || x->card->used(&x->traits);
    if (x->used && x->card->sheet)
        LM_TRY(x->card->sheet(x->f, x->o, &x->sheet, e));
    if (x->used && x->card->derive) {
        x->d = lm_derivation_new(x->f, e);
        if (!x->d)
            return LM_NO_MEMORY;
        x->card->derive(x->d);
        LM_TRY(x->d->status);
    }
    return LM_OK;
}

static lm_status gather(lm_explanation *x, lm_error *e)
{
    LM_TRY(lm_explanation_begin(x, e));
    LM_TRY(draw(x, e));
    return lm_find_users(&x->card, 1, &x->users, e);
}

static lm_status explain(lm_facts *f, const char *topic, const lm_explain_options *o, lm_text *out,
                         lm_error *e)
{
    static const lm_explain_options defaults;
    lm_explanation                  x      = { .f = f, .o = o ? o : &defaults };
    lm_text                          b      = { 0 };
    lm_status                       status;

    lm_find_traits(f->ledger, &x.traits);
    x.card = lm_card_named(topic, &x.traits);
    status = gather(&x, e);
    if (status == LM_OK && x.o->form == LM_FORM_JSON)
        status = lm_explain_json(&x, &b, e);
    else if (status == LM_OK)
        (x.o->form == LM_FORM_TEXT ? lm_explain_text : lm_explain_markdown)(&x, &b);
    if (status == LM_OK)
        status = lm_facts_check(f, e);
    lm_text_free(&x.users.names);
    lm_text_free(&x.diagram);
    lm_text_free(&x.mermaid);
    return lm_text_deliver(&b, status, topic, out, e);
}

lm_status lm_explain(lm_facts *f, const char *topic, const lm_explain_options *o, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, topic);
    if (!lm_card_named(topic, NULL))
        return unknown(topic, e);
    LM_REQUIRE(e, f && out);
    LM_CHECK_RESERVED(e, o);
    lm_language before = lm_language_set(o && o->form != LM_FORM_JSON ? o->language : LM_ENGLISH);
    lm_status   status = explain(f, topic, o, out, e);

    lm_language_set(before);
    return status;
}

lm_status lm_listing_topic(lm_facts *f, const char *topic, lm_listing_language in, lm_text *out, lm_error *e)
{
    lm_traits      traits;
    const lm_card *card;

    LM_REQUIRE(e, topic);
    if (!lm_card_named(topic, NULL))
        return unknown(topic, e);
    LM_REQUIRE(e, f && out);
    lm_find_traits(f->ledger, &traits);
    card = lm_card_named(topic, &traits);
    if (card->used && !card->used(&traits))
        return lm_fail(e, LM_UNSUPPORTED, topic, LM_NO_OFFSET, "%s does not have this", f->s.name);
    return lm_listing_part(f, card->topic, card->title, in, out, e);
}
