/* POST /v1/embeddings, llama.cpp's /embedding, and functions for the routes of other dialects. */
#include "server/dialects/openai.h"

#include <sodium.h>
#include <string.h>

#include "lamina/embed.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"

typedef struct embedding_values {
    const char *model;
    json_t     *input, *lora;
    int         format, pooling;
    uint32_t    dimensions;
    int32_t     priority;
    bool        truncate, raw;
} embedding_values;

#define V(field) offsetof(embedding_values, field)

static const char *const format_words[] = { "float", "base64", NULL };
static const char *const pooling_words[] = { "last", "mean", NULL };     /* by lm_pooling */

static const lm_field embedding_fields[] = {
    { "input", LM_FIELD_ANY, V(input), 0, 0, NULL, true, "string, array of token ids, or array of those" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "encoding_format", LM_FIELD_WORD, V(format), 0, 0, format_words, false,
      "float: numbers; base64: little-endian float32" },
    { "dimensions", LM_FIELD_U32, V(dimensions), 1, 1e6, NULL, false,
      "the first N dimensions, normalized again" },
    { "pooling", LM_FIELD_WORD, V(pooling), 0, 0, pooling_words, false,
      "the last token's vector, or the mean of all" },
    { "lora", LM_FIELD_ARRAY, V(lora), 0, 0, NULL, false, "low-rank adapters, as in /v1/chat/completions" },
    { "priority", LM_FIELD_I32, V(priority), -LM_MAX_PRIORITY, LM_MAX_PRIORITY, NULL, false,
      "as in /v1/chat/completions" },
    LM_IGNORED("user"), LM_REFUSED("truncate_prompt_tokens", "inputs are never truncated"),
    { 0 },
};
static const lm_field_group embedding_groups[] = { { embedding_fields, 0 }, { 0 } };

static void embedding_defaults(const lm_service *s, void *values)
{
    ((embedding_values *)values)->priority = LM_PRIORITY_NONE;
    ((embedding_values *)values)->pooling = s->o.pooling;
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
        char *text = lm_heap_alloc(size);
        list = text ? json_string(sodium_bin2base64(text, size, (const unsigned char *)x, n * sizeof *x,
                                                    sodium_base64_VARIANT_ORIGINAL))
                    : NULL;
        lm_heap_free(text);
        return list;
    }
    list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_real((double)x[i]));
    return list;
}

/* The `own` of a read job that computes vectors. */
typedef struct embedding_own { uint32_t width, dimensions; bool base64; } embedding_own;

/* Return text i as a vector; NULL: out of memory. */
json_t *lm_embedding_json(const lm_read_job *r, size_t i)
{
    const embedding_own *own = lm_read_job_own(r);
    float *vector = lm_memory_zero(own->width, sizeof *vector);
    json_t *o = NULL;

    if (!vector)
        return NULL;
    lm_pooler_vector(lm_read_job_of(r, i), vector);
    if (own->dimensions < own->width)
        normalize(vector, own->dimensions);
    o = vector_json(vector, own->dimensions, own->base64);
    lm_heap_free(vector);
    return o;
}

static void free_pooler(void *pooler)
{
    lm_pooler_free(pooler);
}

/* Allocate a pooler per text. On failure those already made are in *out. */
static lm_status open_poolers(const lm_prompts *texts, uint32_t width, const embedding_values *v, void ***out,
                              lm_error *e)
{
    const lm_embed_options o = { .pooling = (lm_pooling)v->pooling, .raw = v->raw };
    lm_pooler *one = NULL;

    if (!(*out = lm_memory_zero(texts->n, sizeof **out)))
        return lm_fail_memory(e, "vectors", texts->n * sizeof **out);
    for (size_t i = 0; i < texts->n; i++) {
        LM_TRY(lm_pooler_new(width, texts->items[i].n, &o, &one, e));
        (*out)[i] = one;
    }
    return LM_OK;
}

/* Report an error about a prompt as one about the field that was sent. */
static lm_status in_input(const lm_call *c, lm_status status, lm_error *e)
{
    return lm_fault_rename(status, "prompt", json_object_get(c->body, "input") ? "input"
                                             : json_object_get(c->body, "content") ? "content" : "prompt", e);
}

/* Cut inputs that are longer than the context. An end token stays at the end: models that are trained with it
 * compute the vector there. */
static void truncate_inputs(const lm_call *c, lm_prompts *inputs)
{
    size_t max = lm_engine_context(c->service->engine), n_cut = 0;

    for (size_t i = 0; i < inputs->n; i++) {
        lm_tokens *one = inputs->items + i;
        if (one->n <= max)
            continue;
        if (lm_model_is_end(c->service->model, one->ids[one->n - 1]))
            one->ids[max - 1] = one->ids[one->n - 1];
        one->n = max;
        n_cut++;
    }
    if (n_cut)
        lm_field_warn(c->warnings, "truncate: %zu inputs are cut to %zu tokens", n_cut, max);
}

static lm_status read_inputs(lm_call *c, const embedding_values *v, lm_read_job_options *o, lm_error *e)
{
    uint32_t width = lm_engine_hidden_width(c->service->engine);
    embedding_own *own = o->own = lm_heap_alloc(sizeof *own);

    if (!own)
        return lm_fail_memory(e, "vectors", sizeof *own);
    *own = (embedding_own){ width, v->dimensions ? v->dimensions : width, v->format == 1 };
    LM_TRY(lm_service_require_single(c->service, "an embedding", e));
    if (!width)
        return lm_fault(c, e, 501, NULL, "embeddings are off: start the server with --embeddings");
    if (v->dimensions > width)
        return lm_fail(e, LM_USAGE, "dimensions", LM_NO_OFFSET, "'dimensions' is %u; the model has %u",
                       v->dimensions, width);
    LM_TRY(lm_prompts_read(c->service, v->input, LM_LIMIT_ID_INPUTS, &o->prompts, e));
    if (v->truncate)
        truncate_inputs(c, &o->prompts);
    return open_poolers(&o->prompts, width, v, &o->of, e);
}

static lm_status embed(lm_call *c, const embedding_values *v, json_t *(*document)(const lm_read_job *r),
                       lm_error *e)
{
    lm_read_job_options o = { .hook = { .row = lm_pooler_row, .free = free_pooler },
                              .document = document,
                              .priority = v->priority,
                              .lora = v->lora };
    lm_status status = read_inputs(c, v, &o, e);

    return in_input(c, lm_read_job_start(c, &o, status, e), e);
}

lm_status lm_embeddings(lm_call *c, json_t *input, uint32_t dimensions, bool truncate, bool raw,
                        json_t *(*document)(const lm_read_job *r), lm_error *e)
{
    embedding_values v = { .input = input,
                           .dimensions = dimensions,
                           .truncate = truncate,
                           .raw = raw,
                           .pooling = c->service->o.pooling,
                           .priority = LM_PRIORITY_NONE };

    return embed(c, &v, document, e);
}

static json_t *embeddings_document(const lm_read_job *r)
{
    json_t *data = json_array();
    json_int_t tokens = (json_int_t)lm_read_job_all_tokens(r);

    for (size_t i = 0; i < lm_read_job_count(r); i++)
        json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i,
                                              "embedding", lm_embedding_json(r, i)));
    return json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data, "model",
                     lm_read_job_service(r)->name, "usage", "prompt_tokens", tokens, "total_tokens", tokens);
}

static lm_status answer_embeddings(lm_call *c, lm_error *e)
{
    return embed(c, c->values, embeddings_document, e);
}

const lm_route lm_route_embeddings = {
    .method = "POST", .path = "/v1/embeddings", .dialect = LM_DIALECT_OPENAI,
    .summary = "compute embedding vectors",
    .groups = embedding_groups, .values_size = sizeof(embedding_values), .defaults = embedding_defaults,
    .handle = answer_embeddings,
};

/* ---- llama.cpp's /embedding ---- */

typedef struct native_values { const char *model; json_t *content; int32_t norm; } native_values;

#define N(field) offsetof(native_values, field)

enum { NORM_NONE = -1, NORM_EUCLIDEAN = 2 };             /* llama.cpp's values of embd_normalize */

static const lm_field native_fields[] = {
    { "content", LM_FIELD_ANY, N(content), 0, 0, NULL, false,
      "string, array of token ids, or array of those" },
    { "input", LM_FIELD_ANY, N(content), 0, 0, NULL, false, "the same by OpenAI's name" },
    { "embd_normalize", LM_FIELD_I32, N(norm), 0, 0, NULL, false,
      "2: vectors of length 1 (2); -1: unchanged" },
    { "model", LM_FIELD_STRING, N(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group native_groups[] = { { native_fields, 0 }, { 0 } };

static void native_defaults(const lm_service *s, void *values)
{
    (void)s;
    ((native_values *)values)->norm = NORM_EUCLIDEAN;
}

/* Return a list of vectors per text; with pooling it has one element. */
static json_t *native_document(const lm_read_job *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < lm_read_job_count(r); i++)
        json_array_append_new(list, json_pack("{s:i, s:[o]}", "index", (int)i, "embedding",
                                              lm_embedding_json(r, i)));
    return list;
}

static lm_status answer_native(lm_call *c, lm_error *e)
{
    const native_values *v = c->values;

    if (!v->content)
        return lm_fail(e, LM_USAGE, "content", LM_NO_OFFSET, "'content' is required");
    if (v->norm != NORM_NONE && v->norm != NORM_EUCLIDEAN)
        return lm_fail(e, LM_USAGE, "embd_normalize", LM_NO_OFFSET,
                       "'embd_normalize' is %d; it must be 2 or -1", v->norm);
    return lm_embeddings(c, v->content, 0, false, v->norm == NORM_NONE, native_document, e);
}

const lm_route lm_route_native_embedding = {
    .method = "POST", .path = "/embedding", .also = "/embeddings", .dialect = LM_DIALECT_NATIVE,
    .summary = "compute embedding vectors, llama.cpp-compatible",
    .groups = native_groups, .values_size = sizeof(native_values), .defaults = native_defaults,
    .handle = answer_native,
};
