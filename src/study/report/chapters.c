/* chapters.c - a report: its chapters in order, and its writers. */
#include "lamina/study/report.h"

#include <string.h>
#include <strings.h>

#include "study/page/sliders.h"
#include "study/report/chapters.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/language.h"
#include "lamina/version.h"

bool lm_report_form(const char *path, lm_form *out)
{
    if (!path || !out)
        return false;
    static const struct { const char *end; lm_form form; } forms[] = {
        { ".txt", LM_FORM_TEXT },  { ".md", LM_FORM_MARKDOWN }, { ".markdown", LM_FORM_MARKDOWN },
        { ".json", LM_FORM_JSON }, { ".html", LM_FORM_HTML },   { ".htm", LM_FORM_HTML },
    };
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t k = strlen(forms[i].end);
        if (n > k && strcasecmp(path + n - k, forms[i].end) == 0) {
            *out = forms[i].form;
            return true;
        }
    }
    return false;
}

/* ---- contents ---- */

static void free_shared(lm_chapters_shared *s)
{
    lm_comparison_free(s->comparison);
    for (size_t i = 0; s->users && lm_card_at(i); i++)
        lm_text_free(&s->users[i].names);
    lm_free(s->users);
}

static lm_chapter *const chapters[] = {
    lm_chapter_overview, lm_chapter_configuration, lm_chapter_structure, lm_chapter_layers,
    lm_chapter_parameters, lm_chapter_estimates, lm_chapter_compute, lm_chapter_cache,
    lm_chapter_memory, lm_chapter_speed, lm_chapter_tuning, lm_chapter_positions,
    lm_chapter_components, lm_chapter_formulas, lm_chapter_reading, lm_chapter_history,
    lm_chapter_sources,
};

/* Close what follows the first section of a block: on pages, readers open what they look for. */
static void close_all_but_first(lm_block *within)
{
    bool first = true;

    for (lm_block *b = within->first; b; b = b->next)
        if (b->kind == LM_BLOCK_SECTION) {
            b->closed |= !first;
            first = false;
        }
}

static void write_model(lm_document *d)
{
    if (d->brief) {
        lm_chapter_overview(d);
        return;
    }
    for (size_t i = 0; i < sizeof chapters / sizeof *chapters; i++)
        if (chapters[i] != lm_chapter_history ||
            d->n_models == 1)       /* for several models it is in the comparison */
            chapters[i](d);
    close_all_but_first(d->at);
}

/* Set the subtitle: who wrote the report, about what, for which machine. */
static void write_subtitle(lm_document *d)
{
    lm_facts   *f      = d->models[0];
    const char *device = lm_facts_has(f, "speed.device") ? lm_facts_text(f, "speed.device") : NULL;

    if (d->n_models > 1)
        d->subtitle = lm_doc_printf(
            d, _("Written by lamina %s. All numbers are computed from the programs that run."),
            LAMINA_VERSION);
    else
        d->subtitle = lm_doc_printf(
            d,
            _("%s, %s. Written by lamina %s. All numbers are computed from the program that runs."),
            _(lm_facts_text(f, "model.container")), lm_facts_text(f, "model.source"), LAMINA_VERSION);
    d->device = device;
}

static void write_all(lm_document *d)
{
    lm_text names = { 0 };

    for (size_t i = 0; i < d->n_models; i++)
        lm_text_printf(&names, "%s%s", i ? ", " : "", lm_facts_text(d->models[i], "model.name"));
    d->failed |= names.failed;
    d->root.title = lm_doc_strdup(d, names.data ? names.data : "");
    lm_text_free(&names);
    write_subtitle(d);
    if (d->n_models == 1) {
        write_model(d);
        return;
    }
    if (!d->brief)
        lm_chapter_comparison(d);
    for (size_t i = 0; i < d->n_models; i++) {
        const char *name = lm_facts_text(d->models[i], "model.name");
        d->facts         = d->models[i];
        d->prefix        = "";
        lm_block *b      = lm_doc_open(d, lm_doc_slug(d, name), NULL, name);
        d->prefix        = lm_doc_printf(d, "%s-", b->id ? b->id : "");
        write_model(d);
        lm_doc_close(d);
    }
    d->facts  = NULL;
    d->prefix = "";
}

/* ---- output ---- */

static lm_status write(lm_document *d, const lm_report_options *o, lm_text *out, lm_error *e)
{
    switch (o->form) {
    case LM_FORM_TEXT:
        lm_document_text(d, &(lm_document_manner){ o->columns, o->lines }, out);
        return LM_OK;
    case LM_FORM_MARKDOWN:
    case LM_FORM_PANDOC:
        lm_document_markdown(d, o->form == LM_FORM_PANDOC, out);
        return LM_OK;
    case LM_FORM_JSON:
        lm_document_json(d, out);
        return LM_OK;
    case LM_FORM_HTML:
        return lm_document_html(d, out, e);
    default:
        return lm_fail(e, LM_USAGE, "report", LM_NO_OFFSET, "unsupported report format");
    }
}

static lm_status check(lm_document *d, lm_error *e)
{
    for (size_t i = 0; i < d->n_models; i++)
        LM_TRY(lm_facts_check(d->models[i], e));
    return lm_document_check(d, e);
}

lm_status lm_report_write(lm_facts *const *models, size_t n, const lm_report_options *o, lm_text *out,
                          lm_error *e)
{
    static const lm_report_options defaults;

    LM_REQUIRE(e, models && out);
    LM_CHECK_RESERVED(e, o);
    o = o ? o : &defaults;
    lm_document        d;
    lm_chapters_shared shared = { 0 };
    lm_text             b = { 0 };

    if (n < 1 || n > 16)
        return lm_fail(e, LM_USAGE, "report", LM_NO_OFFSET, "%zu models given; a report takes 1 to 16", n);
    lm_language before = lm_language_set(o->form == LM_FORM_JSON ? LM_ENGLISH : o->language);
    lm_document_init(&d, models, n);
    d.brief        = o->brief;
    shared.sliders = o->form == LM_FORM_HTML && !o->brief;
    shared.listing = n == 1 && o->form == LM_FORM_HTML;
    shared.forward = shared.listing ? o->forward : NULL;
    d.shared   = &shared;
    d.language = o->language;
    d.pieces   = o->pieces;
    d.n_pieces = o->n_pieces;
    write_all(&d);
    lm_document_number(&d);
    lm_status status = check(&d, e);
    if (status == LM_OK)
        status = write(&d, o, &b, e);
    if (status == LM_OK)
        status = check(&d, e);
    lm_document_free(&d);
    free_shared(&shared);
    lm_language_set(before);
    return lm_text_deliver(&b, status, "report", out, e);
}

lm_status lm_report_settings(lm_facts *model, lm_language language, lm_text *out, lm_error *e)
{
    lm_text b = { 0 };

    LM_REQUIRE(e, model && out);
    lm_language before = lm_language_set(language);
    lm_sliders *s      = lm_sliders_of(model);
    lm_status   status = lm_facts_check(model, e);

    if (s)
        lm_sliders_json(s, &b);
    else if (status == LM_OK)
        status = lm_fail(e, LM_UNSUPPORTED, "settings", LM_NO_OFFSET, "no plan of this model can be made");
    lm_language_set(before);
    return lm_text_deliver(&b, status, "settings", out, e);
}
