/* GET /v1/facts, /v1/drawing, /v1/report, /v1/settings: describe a model, as the commands inspect, explain
 * and report do. A model that is not in memory is described from its file and not loaded. */
#include <string.h>

#include "lamina/study/report.h"
#include "server/dialects/routes.h"

/* The model of a call and its facts, valid until look_away. */
typedef struct looked { lm_service *s; bool here; lm_model *own; lm_facts *facts; } looked;

static void drop_facts(looked *l)
{
    lm_facts_free(l->facts);
    lm_model_close(l->own);
    if (l->here)
        lm_models_unpeek(l->s);
}

/* Open the facts of a call's model. `whole`: with the default kv_positions and max_logits (the full context
 * of every sequence), not the server's. */
static lm_status look_at(lm_call *c, bool whole, looked *out, lm_error *e)
{
    lm_facts_options o = lm_facts_defaults();
    lm_model_options m = c->service->o.model;
    lm_status status = LM_OK;

    *out = (looked){ .s = c->service, .here = lm_models_peek(c->service) };
    o.engine = c->service->o.engine;
    if (whole)
        o.engine.kv_positions = o.engine.max_logits = 0;
    o.limits = c->service->o.limits;
    m.structure_only = true;
    if (!out->here)
        status = lm_model_open(c->service->o.path, &m, &out->own, e);
    if (status == LM_OK)
        status = lm_facts_new(out->here ? c->service->model : out->own, &o, &out->facts, e);
    if (status != LM_OK)
        drop_facts(out);
    return status;
}

static lm_status look(lm_call *c, looked *out, lm_error *e)
{
    return look_at(c, false, out, e);
}

static lm_status language_of(lm_call *c, lm_language *out, lm_error *e)
{
    const char *name = lm_exchange_query(c->x, "language");

    *out = LM_ENGLISH;
    if (!name || lm_language_find(name, out, NULL) == LM_OK)
        return LM_OK;
    return lm_fail(e, LM_USAGE, "language", LM_NO_OFFSET,
                   "'language' has the unknown value \"%.40s\": expected en, zh-Hant, zh-Hans or my", name);
}

static lm_status finish(lm_call *c, const char *type, const lm_text *text, lm_error *e)
{
    if (text->failed)
        return lm_fail_memory(e, "the answer", text->size);
    lm_exchange_add_header(c->x, "X-Content-Type-Options", "nosniff");
    lm_exchange_add_header(c->x, "Content-Security-Policy", "sandbox");
    lm_text_add(lm_exchange_out(c->x), text->data, text->size);
    lm_exchange_head(c->x, 200, type);
    lm_exchange_end(c->x);
    return LM_OK;
}

static lm_status answer_facts(lm_call *c, lm_error *e)
{
    lm_text text = { 0 };
    looked l;

    LM_TRY(look(c, &l, e));
    lm_status status = lm_facts_json(l.facts, lm_exchange_query(c->x, "path"), &text, e);
    if (status == LM_OK)
        status = finish(c, "application/json", &text, e);
    lm_text_free(&text);
    drop_facts(&l);
    return status;
}

/* Read a whole number from the query; `otherwise` if it is not given. */
static lm_status number_of(lm_call *c, const char *name, uint32_t otherwise, uint32_t *out, lm_error *e)
{
    const char *given = lm_exchange_query(c->x, name);
    uint64_t n = 0;

    *out = otherwise;
    if (!given)
        return LM_OK;
    if (!*given || strspn(given, "0123456789") != strlen(given) || strlen(given) > 7)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "'%s' must be a number", name);
    for (; *given; given++)
        n = n * 10 + (uint64_t)(*given - '0');
    *out = (uint32_t)n;
    return LM_OK;
}

static lm_status draw(lm_call *c, const char *name, lm_text *text, lm_error *e)
{
    lm_explain_options o = lm_explain_defaults();
    looked l;

    o.form = LM_FORM_SVG;
    LM_TRY(language_of(c, &o.language, e));
    LM_TRY(number_of(c, "layer", 0, &o.layer, e));
    LM_TRY(look(c, &l, e));
    lm_status status = lm_diagram(l.facts, name, &o, text, e);
    drop_facts(&l);
    return status;
}

static lm_status answer_drawing(lm_call *c, lm_error *e)
{
    const char *name = lm_exchange_query(c->x, "name");
    lm_text text = { 0 };

    lm_status status = draw(c, name ? name : "flow", &text, e);
    if (status == LM_OK)
        status = finish(c, "image/svg+xml", &text, e);
    lm_text_free(&text);
    return status;
}

static const struct { const char *name; lm_form form; const char *type; } forms[] = {
    { "json", LM_FORM_JSON, "application/json" },
    { "html", LM_FORM_HTML, "text/html; charset=utf-8" },
    { "markdown", LM_FORM_MARKDOWN, "text/markdown; charset=utf-8" },
    { "text", LM_FORM_TEXT, "text/plain; charset=utf-8" },
};

static lm_status answer_report(lm_call *c, lm_error *e)
{
    const char *given = lm_exchange_query(c->x, "form");
    lm_report_options o = lm_report_defaults();
    lm_text text = { 0 };
    size_t i = 0;
    looked l;

    while (given && i < sizeof forms / sizeof *forms && strcmp(forms[i].name, given))
        i++;
    if (i == sizeof forms / sizeof *forms)
        return lm_fail(e, LM_USAGE, "form", LM_NO_OFFSET, "'form' must be json, html, markdown or text");
    o.form = forms[i].form;
    LM_TRY(language_of(c, &o.language, e));
    LM_TRY(look(c, &l, e));
    lm_status status = lm_report_write(&l.facts, 1, &o, &text, e);
    if (status == LM_OK)
        status = finish(c, forms[i].type, &text, e);
    lm_text_free(&text);
    drop_facts(&l);
    return status;
}

static lm_status answer_settings(lm_call *c, lm_error *e)
{
    lm_text     text = { 0 };
    lm_language language;
    looked      l;

    LM_TRY(language_of(c, &language, e));
    LM_TRY(look_at(c, true, &l, e));
    lm_status status = lm_report_settings(l.facts, language, &text, e);
    if (status == LM_OK)
        status = finish(c, "application/json", &text, e);
    lm_text_free(&text);
    drop_facts(&l);
    return status;
}

const lm_route lm_route_facts = {
    .method = "GET", .path = "/v1/facts", .flags = LM_ROUTE_ASKS | LM_ROUTE_LONG,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return facts of a model, as lamina inspect --json does: ?model=, ?path= of one fact or group",
    .handle = answer_facts, .query = "model, path",
};
const lm_route lm_route_drawing = {
    .method = "GET", .path = "/v1/drawing", .flags = LM_ROUTE_ASKS | LM_ROUTE_LONG,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "draw a diagram of lamina explain: SVG; ?model=, ?name= (flow), ?layer= (0), ?language= (en)",
    .handle = answer_drawing, .query = "model, name, layer, language",
};
const lm_route lm_route_report = {
    .method = "GET", .path = "/v1/report", .flags = LM_ROUTE_ASKS | LM_ROUTE_LONG,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return a report: ?model=, ?form=json, html, markdown or text (json), ?language= (en)",
    .handle = answer_report, .query = "model, form, language",
};
const lm_route lm_route_settings = {
    .method = "GET", .path = "/v1/settings", .flags = LM_ROUTE_ASKS | LM_ROUTE_LONG,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return the memory of a model at every context, number of sequences, cache type and weight "
               "precision: ?model=, ?language= (en)",
    .handle = answer_settings, .query = "model, language",
};
