/* GET /v1/models, GET /health. */
#include <string.h>

#include "server/dialects/routes.h"

/* ---- models ---- */

/* Return the words of a comma-separated list (NULL: empty) as an array, after `first` if neither is NULL. */
static json_t *words_of(const char *first, const char *list)
{
    json_t *o = json_array();

    if (first && list)
        json_array_append_new(o, json_string(first));
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        json_array_append_new(o, json_stringn(at, strcspn(at, ",")));
    return o;
}

static json_t *model_json(lm_service *s)
{
    const lm_model_info *i = &s->o.card;
    lm_model_status now;
    json_t *o, *status;
    json_int_t context = s->o.engine.context ? s->o.engine.context : i->context_length;

    lm_models_status(s, &now);
    status = json_pack("{s:s, s:I, s:I}", "value", now.word, "bytes", (json_int_t)now.bytes, "requests",
                       (json_int_t)now.users);
    if (*now.error)
        json_object_set_new(status, "error", json_string(now.error));
    o = json_pack("{s:s, s:s, s:I, s:s, s:I, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "id", s->name, "object",
                  "model", "created", (json_int_t)s->began, "owned_by", "lamina", "max_model_len", context,
                  "status", status, "meta", "n_vocab", (json_int_t)i->n_vocab, "n_ctx", context, "n_ctx_train", (json_int_t)i->context_length, "n_embd",
                  (json_int_t)i->hidden, "n_params", (json_int_t)i->parameters, "size",
                  (json_int_t)i->weight_bytes);
    json_object_set_new(o, "aliases", words_of(s->name, s->o.aliases));
    json_object_set_new(o, "tags", words_of(NULL, s->o.tags));
    if (s->o.others)
        json_object_set_new(o, "ensemble", lm_service_ensemble(s));
    return o;
}

static lm_status answer_models(lm_call *c, lm_error *e)
{
    json_t *list = json_array();

    for (size_t i = 0; lm_models_at(c->models, i); i++)
        json_array_append_new(list, model_json(lm_models_at(c->models, i)));
    return lm_answer_json(c, json_pack("{s:s, s:o}", "object", "list", "data", list), e);
}

static lm_status answer_model(lm_call *c, lm_error *e)
{
    lm_service *s = lm_models_find(c->models, c->id);

    if (!s)
        return lm_fault(c, e, 404, "model",
                        "the model \"%.60s\" does not exist: GET /v1/models lists the available models",
                        c->id);
    return lm_answer_json(c, model_json(s), e);
}

const lm_route lm_route_models = {
    .method = "GET", .path = "/v1/models", .also = "/models", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "list available models and their load status",
    .handle = answer_models,
};
const lm_route lm_route_model = {
    .method = "GET", .path = "/v1/models/{model}", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return one model",
    .handle = answer_model,
};

/* ---- health ---- */

static lm_status answer_health(lm_call *c, lm_error *e)
{
    switch (lm_models_state(c->models, NULL)) {
    case LM_SERVICE_LOADING:  return lm_fault(c, e, 503, NULL, "Loading model");
    case LM_SERVICE_DRAINING: return lm_fault(c, e, 503, NULL, LM_SERVER_ENDS);
    case LM_SERVICE_FAILED:   return lm_fault(c, e, 500, NULL, "the model could not be loaded");
    default:                  break;
    }
    if (lm_models_lost(c->models))
        return lm_fault(c, e, 503, NULL, "another rank of the model is lost");
    return lm_answer_json(c, json_pack("{s:s}", "status", "ok"), e);
}

const lm_route lm_route_health = {
    .method = "GET", .path = "/health", .also = "/v1/health",
    .flags = LM_ROUTE_OPEN | LM_ROUTE_QUICK | LM_ROUTE_LOADING, .dialect = LM_DIALECT_NATIVE,
    .summary = "report whether the server is ready",
    .handle = answer_health,
};

