/* GET /v1/models, POST /v1/embeddings, GET /health. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/models/loras.h"
#include "server/store/archive.h"
#include "server/ask/asked.h"
#include "server/store/api_keys.h"
#include "server/dialects/routes.h"

/* ---- models ---- */

/* `first` (NULL: none), and the words of a list with commas. */
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

    lm_models_status(s, &now);
    status = json_pack("{s:s, s:I, s:I}", "value", now.word, "bytes", (json_int_t)now.bytes, "requests", (json_int_t)now.users);
    if (*now.error)
        json_object_set_new(status, "error", json_string(now.error));
    o = json_pack("{s:s, s:s, s:I, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:I}}", "id", s->name, "object", "model", "created",
                  (json_int_t)s->began, "owned_by", "lamina", "status", status, "meta", "n_vocab", (json_int_t)i->n_vocab,
                  "n_ctx_train", (json_int_t)i->context_length, "n_embd", (json_int_t)i->hidden, "n_params",
                  (json_int_t)i->parameters, "size", (json_int_t)i->weight_bytes);
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
        return lm_fault(c, e, 404, "model", "no model \"%.60s\": GET /v1/models lists those that there are", c->id);
    return lm_answer_json(c, model_json(s), e);
}

const lm_route lm_route_models = { "GET", "/v1/models", "/models", LM_ROUTE_QUICK | LM_ROUTE_ALL, LM_DIALECT_OPENAI,
                                   "the models that there are, and whether they are in memory", NULL, 0, NULL, answer_models };
const lm_route lm_route_model = { "GET", "/v1/models/{id}", NULL, LM_ROUTE_QUICK | LM_ROUTE_ALL, LM_DIALECT_OPENAI, "one model",
                                  NULL, 0, NULL, answer_model };

/* ---- health ---- */

static lm_status answer_health(lm_call *c, lm_error *e)
{
    switch (lm_models_state(c->models, NULL)) {
    case LM_SERVICE_LOADING:  return lm_fault(c, e, 503, NULL, "Loading model");
    case LM_SERVICE_DRAINING: return lm_fault(c, e, 503, NULL, "the server is shutting down");
    case LM_SERVICE_FAILED:   return lm_fault(c, e, 500, NULL, "the model could not be loaded");
    default:                  break;
    }
    if (lm_models_lost(c->models))
        return lm_fault(c, e, 503, NULL, "another rank of the model is lost");
    return lm_answer_json(c, json_pack("{s:s}", "status", "ok"), e);
}

const lm_route lm_route_health = { "GET", "/health", "/v1/health", LM_ROUTE_OPEN | LM_ROUTE_QUICK | LM_ROUTE_LOADING, LM_DIALECT_NATIVE,
                                   "whether the server answers", NULL, 0, NULL, answer_health };

/* ---- embeddings ---- */

enum { MAX_TEXTS = 256 };

typedef struct embedding_values { const char *model; json_t *input, *lora; int format, pooling; uint32_t dimensions; } embedding_values;

#define V(field) offsetof(embedding_values, field)

static const char *const format_words[] = { "float", "base64", NULL };
static const char *const pooling_words[] = { "last", "mean", NULL };     /* by lm_pooling */

static const lm_field embedding_fields[] = {
    { "input", LM_FIELD_ANY, V(input), 0, 0, NULL, true, "string, array of token ids, or array of those" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; where there is one model, any" },
    { "encoding_format", LM_FIELD_WORD, V(format), 0, 0, format_words, false, "float: numbers; base64: little-endian float32" },
    { "dimensions", LM_FIELD_U32, V(dimensions), 1, 1e6, NULL, false, "the first N dimensions, normalized again" },
    { "pooling", LM_FIELD_WORD, V(pooling), 0, 0, pooling_words, false, "the last token's vector, or the mean of all" },
    { "lora", LM_FIELD_ARRAY, V(lora), 0, 0, NULL, false, "low-rank adapters, as in /v1/chat/completions" },
    { "user", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { 0 },
};
static const lm_field_group embedding_groups[] = { { embedding_fields, 0 }, { 0 } };

typedef struct embedding { const lm_tokens *ids; lm_pooling pooling; float *out; const float *loras; } embedding;

static lm_status embed(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    const embedding *m = arg;
    lm_embed_options o = { .pooling = m->pooling, .sequence = slot };

    if (m->loras)
        LM_TRY(lm_engine_set_adapters(g, slot, m->loras, e));
    return lm_embed(g, m->ids->ids, m->ids->n, &o, m->out, e);
}

static void normalize(float *x, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; sum > 0 && i < n; i++)
        x[i] = (float)((double)x[i] / __builtin_sqrt(sum));
}

static json_t *vector_json(const float *x, uint32_t n, bool base64)
{
    json_t *list;

    if (base64) {
        size_t size = sodium_base64_encoded_len(n * sizeof *x, sodium_base64_VARIANT_ORIGINAL);
        char *text = malloc(size);
        list = text ? json_string(sodium_bin2base64(text, size, (const unsigned char *)x, n * sizeof *x,
                                                    sodium_base64_VARIANT_ORIGINAL))
                    : NULL;
        free(text);
        return list;
    }
    list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_real((double)x[i]));
    return list;
}

static lm_status embed_texts(lm_call *c, const lm_prompts *texts, const embedding_values *v, json_t *vectors, lm_error *e)
{
    uint32_t width = lm_engine_hidden_width(c->service->engine), dimensions = v->dimensions ? v->dimensions : width;
    float *vector = calloc(width, sizeof *vector), *loras = NULL;
    lm_status status = vector ? lm_loras_read(c->service, v->lora, &loras, e) : lm_fail_memory(e, "a vector", width * sizeof *vector);

    for (size_t i = 0; status == LM_OK && i < texts->n; i++) {
        embedding m = { texts->items + i, (lm_pooling)v->pooling, vector, loras };

        status = lm_schedule_call(c->service->schedule, embed, &m, e);
        if (dimensions < width)
            normalize(vector, dimensions);
        json_array_append_new(vectors, vector_json(vector, dimensions, v->format == 1));
    }
    free(vector);
    free(loras);
    return status;
}

static lm_status embed_all(lm_call *c, const embedding_values *v, json_t **vectors, uint64_t *tokens, lm_error *e)
{
    uint32_t width = lm_engine_hidden_width(c->service->engine);
    lm_prompts texts = { 0 };

    LM_TRY(lm_service_alone(c->service, "an embedding", e));
    lm_status status;

    if (!width)
        return lm_fault(c, e, 501, NULL, "embeddings are off: start the server with --embeddings");
    if (v->dimensions > width)
        return lm_fail(e, LM_USAGE, "dimensions", LM_NO_OFFSET, "%u of %u", v->dimensions, width);
    *vectors = json_array();
    status = lm_prompts_read(c->service, v->input, MAX_TEXTS, &texts, e);
    if (status == LM_OK)
        status = embed_texts(c, &texts, v, *vectors, e);
    for (size_t i = 0; i < texts.n; i++)
        *tokens += texts.items[i].n;
    if (status == LM_OK) {
        char owner[33];
        lm_call_owner(c, owner);
        lm_keys_charge(c->keys, owner, *tokens);
        lm_archive_count(lm_models_at(c->models, 0)->o.archive, owner, c->service->name, *tokens, 0, 0);
    }
    lm_prompts_free(&texts);
    if (status != LM_OK)
        json_decref(*vectors);
    return status;
}

lm_status lm_embeddings(lm_call *c, json_t *input, json_t **vectors, uint64_t *tokens, lm_error *e)
{
    return embed_all(c, &(embedding_values){ .input = input }, vectors, tokens, e);
}

static lm_status answer_embeddings(lm_call *c, lm_error *e)
{
    json_t *vectors = NULL, *data;
    uint64_t tokens = 0;

    LM_TRY(embed_all(c, c->values, &vectors, &tokens, e));
    data = json_array();
    for (size_t i = 0; i < json_array_size(vectors); i++)
        json_array_append_new(data, json_pack("{s:s, s:i, s:O}", "object", "embedding", "index", (int)i, "embedding",
                                              json_array_get(vectors, i)));
    json_decref(vectors);
    return lm_answer_json(c, json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data, "model", c->service->name, "usage",
                                       "prompt_tokens", (json_int_t)tokens, "total_tokens", (json_int_t)tokens), e);
}

const lm_route lm_route_embeddings = { "POST", "/v1/embeddings", NULL, 0, LM_DIALECT_OPENAI, "vectors of texts", embedding_groups,
                                       sizeof(embedding_values), NULL, answer_embeddings };
