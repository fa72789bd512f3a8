/* ollama_models.c - ollama-compatible routes about models: /api/tags, show, ps, pull, and version. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/ask/fim.h"
#include "server/dialects/ollama.h"
#include "server/dialects/routes.h"

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)

static const lm_field pull_fields[] = {
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false, "a name of /api/tags; nothing is downloaded" },
    { "name", LM_FIELD_STRING, B(model), 0, 0, NULL, false, "older name of model" },
    { "stream", LM_FIELD_BOOL, T(stream), 0, 0, NULL, false, "send the result as a line (true)" },
    LM_IGNORED("insecure"),
    { 0 },
};
static const lm_field show_fields[] = {
    LM_OLLAMA_COMMON,
    { "name", LM_FIELD_STRING, B(model), 0, 0, NULL, false, "older name of model" },
    { "verbose", LM_FIELD_BOOL, offsetof(lm_ollama_turn, verbose), 0, 0, NULL, false,
      "return whole arrays in model_info, and the tensors (false)" },
    { 0 },
};
static const lm_field_group pull_groups[] = { { pull_fields, 0 }, { 0 } };
static const lm_field_group show_groups[] = { { show_fields, 0 }, { 0 } };

/* ollama's names of types have capitals: Q4_K. */
static json_t *capitals(const char *name)
{
    char type[32];
    size_t n = 0;

    for (; name && *name && n + 1 < sizeof type; name++)
        type[n++] = (char)toupper((unsigned char)*name);
    return json_stringn(type, n);
}

static json_t *details(const lm_service *s)
{
    const lm_model_info *i = &s->o.card;
    char size[32];

    snprintf(size, sizeof size, "%llu.%lluM", (unsigned long long)(i->parameters / 1000000),
             (unsigned long long)(i->parameters / 100000 % 10));
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:o}", "parent_model", "", "format", i->container, "family",
                     i->family, "families", i->family, "parameter_size", size, "quantization_level",
                     capitals(i->storage));
}

/* Return the time of the last change of the model's file. Without a file: now. */
static json_t *changed(const lm_service *s)
{
    struct stat file;

    return stat(s->o.path, &file) == 0 ? lm_ollama_date(&file.st_mtim) : lm_ollama_moment(0);
}

static json_t *tag(const lm_service *s, const lm_model_status *now)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:o}", "name", s->name, "model", s->name, "modified_at",
                     changed(s), "size", (json_int_t)s->o.card.weight_bytes, "digest", now->digest,
                     "details", details(s));
}

static lm_status answer_tags(lm_call *c, lm_error *e)
{
    json_t *list = json_array();

    for (size_t i = 0; lm_models_at(c->models, i); i++) {
        lm_model_status now;

        lm_models_status(lm_models_at(c->models, i), &now);
        json_array_append_new(list, tag(lm_models_at(c->models, i), &now));
    }
    return lm_answer_json(c, json_pack("{s:o}", "models", list), e);
}

static uint32_t context_of(const lm_service *s)
{
    return s->o.engine.context ? s->o.engine.context : s->o.card.context_length;
}

static lm_status answer_ps(lm_call *c, lm_error *e)
{
    json_t *list = json_array();

    for (size_t i = 0; lm_models_at(c->models, i); i++) {
        lm_service *s = lm_models_at(c->models, i);
        lm_model_status now;
        json_t *o;

        lm_models_status(s, &now);
        if (strcmp(now.word, "loaded"))
            continue;
        o = tag(s, &now);
        json_object_del(o, "modified_at");
        json_object_set_new(o, "size", json_integer((json_int_t)now.bytes));
        json_object_set_new(o, "size_vram", json_integer(0));
        /* ollama's date for "never" */
        json_object_set_new(o, "expires_at",
                            now.leaves < 0 ? json_string("2318-01-01T00:00:00Z")
                                           : lm_ollama_moment(now.leaves));
        json_object_set_new(o, "context_length", json_integer(context_of(s)));
        json_array_append_new(list, o);
    }
    return lm_answer_json(c, json_pack("{s:o}", "models", list), e);
}

static lm_status report(const lm_model *m, lm_report what, json_t **out, lm_error *e)
{
    lm_text text = { 0 };

    LM_TRY(lm_model_report(m, what, &text, e));
    *out = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    lm_text_free(&text);
    return *out ? LM_OK : lm_fail_memory(e, "the answer", 0);
}

/* Return the keys of a model's GGUF file, with arrays of more than five elements empty unless all of them are
 * requested, as ollama does; of other files: none. */
static lm_status read_keys(const lm_service *s, const lm_model *m, bool whole, json_t **out, lm_error *e)
{
    const char *key;
    json_t *value;

    *out = NULL;
    if (strcmp(s->o.card.container, "gguf") == 0)
        LM_TRY(report(m, whole ? LM_REPORT_METADATA_WHOLE : LM_REPORT_METADATA, out, e));
    json_object_foreach(*out, key, value)
        if (!whole && (json_is_object(value) || json_array_size(value) > 5))
            json_object_set_new(*out, key, json_array());
    json_object_del(*out, "general.name");               /* ollama has them elsewhere */
    json_object_del(*out, "tokenizer.chat_template");
    if (!*out)
        *out = json_object();
    return *out ? LM_OK : lm_fail_memory(e, "the answer", 0);
}

/* Return the tensors as ollama does: types have capitals, and the innermost dimension is the first. */
static lm_status read_tensors(const lm_model *m, json_t **out, lm_error *e)
{
    json_t *tensor;
    size_t i;

    LM_TRY(report(m, LM_REPORT_TENSORS, out, e));
    json_array_foreach(*out, i, tensor) {
        const json_t *shape = json_object_get(tensor, "shape");
        json_t *dims = json_array();
        for (size_t d = json_array_size(shape); d--;)
            json_array_append(dims, json_array_get(shape, d));
        json_object_set_new(tensor, "shape", dims);
        json_object_set_new(tensor, "type", capitals(json_string_value(json_object_get(tensor, "type"))));
        json_object_del(tensor, "bytes");
        json_object_del(tensor, "offset");
        json_object_del(tensor, "file");
    }
    return LM_OK;
}

/* Return `model_info`, and the tensors if all is requested. The length of the context is the server's, which
 * clients must keep to. */
static lm_status model_info(const lm_service *s, bool here, bool whole, json_t **out, json_t **tensors,
                            lm_error *e)
{
    const lm_model_info *i = &s->o.card;
    lm_model_options o = s->o.model;
    lm_model *own = NULL;
    char key[96];

    o.structure_only = true;
    if (!here)
        LM_TRY(lm_model_open(s->o.path, &o, &own, e));
    lm_status status = read_keys(s, here ? s->model : own, whole, out, e);
    if (status == LM_OK && whole)
        status = read_tensors(here ? s->model : own, tensors, e);
    lm_model_close(own);
    if (status != LM_OK) {
        json_decref(*out);
        return status;
    }
    json_object_set_new(*out, "general.architecture", json_string(i->family));
    json_object_set_new(*out, "general.parameter_count", json_integer((json_int_t)i->parameters));
    snprintf(key, sizeof key, "%s.context_length", i->family);
    json_object_set_new(*out, key, json_integer(context_of(s)));
    snprintf(key, sizeof key, "%s.embedding_length", i->family);
    json_object_set_new(*out, key, json_integer((json_int_t)i->hidden));
    return LM_OK;
}

/* Describe a model without loading it: if it is not in memory, without its template. */
static lm_status answer_show(lm_call *c, lm_error *e)
{
    const lm_ollama_turn *v = c->values;
    lm_service *s = c->service;
    bool here = lm_models_peek(s);
    json_t *capabilities, *template, *info, *tensors = NULL;
    lm_status status = model_info(s, here, v->verbose, &info, &tensors, e);

    if (status != LM_OK) {
        if (here)
            lm_models_unpeek(s);
        return status;
    }
    capabilities = json_pack("[s]", "completion");
    if (s->o.embeddings)
        json_array_append_new(capabilities, json_string("embedding"));
    if (here && lm_answer_style_name(&s->style))
        json_array_append_new(capabilities, json_string("tools"));
    if (here && lm_ollama_thinks(s))
        json_array_append_new(capabilities, json_string("thinking"));
    if (here && lm_fim_supported(s))
        json_array_append_new(capabilities, json_string("insert"));
    template = json_string(here && s->template_source ? s->template_source : "");
    if (here)
        lm_models_unpeek(s);
    return lm_answer_json(c,
                          json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o*}", "modified_at", changed(s),
                                    "template", template, "modelfile", "", "parameters", "", "details",
                                    details(s), "model_info", info, "capabilities", capabilities,
                                    "tensors", tensors),
                          e);
}

/* Clients pull a model before they use it. An available model is reported as pulled; no model is
 * downloaded. */
static lm_status answer_pull(lm_call *c, lm_error *e)
{
    const lm_ollama_turn *v = c->values;

    if (!v->turn.body.model || !*v->turn.body.model)
        return lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "'model' is required");
    if (!lm_models_find(c->models, v->turn.body.model))
        return lm_fault(c, e, 404, "model",
                        "the model \"%.60s\" does not exist, and this server downloads none: fetch it with "
                        "lamina pull, and serve it",
                        v->turn.body.model);
    if (!v->turn.stream)
        return lm_answer_json(c, json_pack("{s:s}", "status", "success"), e);
    lm_answer_text(c->x, 200, "application/x-ndjson", "{\"status\":\"success\"}\n");
    return LM_OK;
}

static lm_status answer_version(lm_call *c, lm_error *e)
{
    return lm_answer_json(c, json_pack("{s:s}", "version", lm_version()), e);
}

const lm_route lm_route_ollama_tags = {
    .method = "GET", .path = "/api/tags", .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OLLAMA,
    .summary = "list available models",
    .handle = answer_tags,
};
const lm_route lm_route_ollama_show = {
    .method = "POST", .path = "/api/show", .flags = LM_ROUTE_ASKS, .dialect = LM_DIALECT_OLLAMA,
    .summary = "describe a model",
    .groups = show_groups, .values_size = sizeof(lm_ollama_turn), .handle = answer_show,
};
const lm_route lm_route_ollama_ps = {
    .method = "GET", .path = "/api/ps", .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OLLAMA,
    .summary = "list loaded models",
    .handle = answer_ps,
};
const lm_route lm_route_ollama_pull = {
    .method = "POST", .path = "/api/pull", .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OLLAMA,
    .summary = "report whether a model is available, as after a download",
    .groups = pull_groups, .values_size = sizeof(lm_ollama_turn), .defaults = lm_ollama_defaults,
    .handle = answer_pull,
};
const lm_route lm_route_ollama_version = {
    .method = "GET", .path = "/api/version", .flags = LM_ROUTE_OPEN | LM_ROUTE_QUICK | LM_ROUTE_LOADING,
    .dialect = LM_DIALECT_OLLAMA,
    .summary = "return the version",
    .handle = answer_version,
};
