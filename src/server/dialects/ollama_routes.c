/* ollama_routes.c - ollama-compatible routes that use a model: /api/chat, generate, embed, embeddings. Times
 * are in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ask/duration.h"
#include "server/ask/fim.h"
#include "server/dialects/openai.h"
#include "server/dialects/ollama.h"
#include "server/dialects/routes.h"

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(lm_ollama_turn, field)

/* Of the object `options`: they are read into the same turn. */
static const lm_field option_fields[] = {
    { "num_predict", LM_FIELD_I64, T(max_tokens), -2, 1e9, NULL, false,
      "maximum number of tokens to generate; -1: no limit" },
    { "num_keep", LM_FIELD_I64, T(keep_first), -1, 1e9, NULL, false,
      "with truncate, number of tokens at the beginning of the prompt that are kept (4); -1: as many as "
      "fit" },
    LM_IGNORED("num_ctx"), LM_IGNORED("num_thread"), LM_IGNORED("num_batch"),
    LM_IGNORED("num_gpu"), LM_IGNORED("use_mmap"), LM_IGNORED("use_mlock"), LM_IGNORED("numa"),
    LM_IGNORED("main_gpu"), LM_IGNORED("low_vram"),
    { 0 },
};
static const lm_field_group option_groups[] = {
    { option_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_no_trace_fields, 0 },
    { lm_constraints_fields, T(constraints) }, { 0 },
};

#define WRITING                                                                                             \
    { "stream", LM_FIELD_BOOL, T(stream), 0, 0, NULL, false, "send one line per piece of text (true)" },    \
    { "format", LM_FIELD_ANY, V(constraints.format), 0, 0, NULL, false,                                     \
      "\"json\", or a JSON schema that the output matches" },                                               \
    { "logprobs", LM_FIELD_BOOL, T(logprobs), 0, 0, NULL, false, "log-probability of each token" },         \
    { "top_logprobs", LM_FIELD_U32, T(top_logprobs), 0, 20, NULL, false,                                    \
      "most probable tokens returned per position; needs logprobs" },                                       \
    { "think", LM_FIELD_ANY, V(think), 0, 0, NULL, false,                                                   \
      "reasoning: true, false, \"low\", \"medium\" or \"high\"" }

static const lm_field chat_fields[] = {
    LM_OLLAMA_COMMON, WRITING,
    { "messages", LM_FIELD_ARRAY, B(messages), 0, 0, NULL, false,
      "the conversation; without it, the model is loaded" },
    { "tools", LM_FIELD_ARRAY, B(tools), 0, 0, NULL, false,
      "functions that may be called: type function, function with name, description, parameters" },
    { "truncate", LM_FIELD_BOOL, T(truncate), 0, 0, NULL, false,
      "shorten a conversation that is longer than the context: leave out its oldest messages (false: an "
      "error)" },
    LM_IGNORED("shift"),
    { 0 },
};
static const lm_field generate_fields[] = {
    LM_OLLAMA_COMMON, WRITING,
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false,
      "the message; with raw, the text to continue" },
    { "system", LM_FIELD_STRING, V(system), 0, 0, NULL, false, "system message" },
    { "raw", LM_FIELD_BOOL, V(raw), 0, 0, NULL, false, "continue the text without the chat template" },
    { "suffix", LM_FIELD_STRING, V(suffix), 0, 0, NULL, false,
      "text after the output, if the model has tokens for it" },
    LM_REFUSED("template", "requests cannot supply a template"),
    LM_REFUSED("context", "use /api/chat to continue a conversation"),
    LM_REFUSED("images", "only text is supported"), LM_IGNORED("shift"),
    { "truncate", LM_FIELD_BOOL, T(truncate), 0, 0, NULL, false,
      "shorten a prompt that is longer than the context (false: an error)" },
    { 0 },
};
static const lm_field embed_fields[] = {
    LM_OLLAMA_COMMON,
    { "input", LM_FIELD_ANY, V(input), 0, 0, NULL, false,
      "string or array of strings; without it, the model is loaded" },
    { "dimensions", LM_FIELD_U32, V(dimensions), 1, 1e6, NULL, false,
      "the first N dimensions, normalized again" },
    { "truncate", LM_FIELD_BOOL, T(truncate), 0, 0, NULL, false,
      "shorten inputs that are longer than the context (false: an error)" },
    { 0 },
};
static const lm_field old_embed_fields[] = {
    LM_OLLAMA_COMMON,
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false, "the text; without it, the model is loaded" },
    { 0 },
};
static const lm_field_group chat_groups[] = {
    { chat_fields, 0 }, { lm_turn_no_trace_fields, 0 }, { lm_constraints_fields, V(constraints) }, { 0 },
};
static const lm_field_group generate_groups[] = {
    { generate_fields, 0 }, { lm_turn_no_trace_fields, 0 }, { lm_constraints_fields, V(constraints) }, { 0 },
};
static const lm_field_group embed_groups[] = { { embed_fields, 0 }, { 0 } };
static const lm_field_group old_embed_groups[] = { { old_embed_fields, 0 }, { 0 } };
void lm_ollama_defaults(const lm_service *s, void *values)
{
    lm_ollama_turn *v = values;

    lm_turn_defaults(s, &v->turn);
    v->turn.stream = true;
    v->turn.keep_first = 4;
    v->constraints.compact = true;
}

/* ---- keep_alive ---- */

/* Read keep_alive. *given: the request has one that is in effect. */
static lm_status read_keep_alive(lm_call *c, bool *given, double *seconds, lm_error *e)
{
    const json_t *value = ((const lm_ollama_turn *)c->values)->keep_alive;

    if (json_is_string(value) && !json_string_length(value))
        value = NULL;
    *given = value != NULL;
    if (json_is_number(value))
        *seconds = json_number_value(value);
    else if (value && !(json_is_string(value) && lm_duration_read(json_string_value(value), seconds)))
        return lm_fail(e, LM_USAGE, "keep_alive", LM_NO_OFFSET,
                       "'keep_alive' must be a number of seconds or a duration such as \"5m\"");
    if (*given && lm_models_stays(c->models)) {
        json_array_append_new(c->warnings,
                              json_string("keep_alive: has no effect: the server keeps its one model"));
        *given = false;
    }
    return LM_OK;
}

static lm_status load_model(lm_call *c, bool given, double seconds, lm_error *e)
{
    LM_TRY(lm_call_model(c, e));
    if (given)
        lm_models_keep(c->service, seconds);
    return LM_OK;
}

/* Load the model, and apply the request's keep_alive. */
static lm_status take_model(lm_call *c, lm_error *e)
{
    double seconds = 0;
    bool given;

    LM_TRY(read_keep_alive(c, &given, &seconds, e));
    return load_model(c, given, seconds, e);
}

/* ---- generation ---- */

static json_t *empty_answer(const lm_call *c, bool chat, const char *reason)
{
    json_t *o = json_pack("{s:s, s:o, s:b, s:s}", "model", c->service->name, "created_at",
                          lm_ollama_moment(0), "done", 1, "done_reason", reason);

    if (chat)
        json_object_set_new(o, "message", json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(o, "response", json_string(""));
    return o;
}

/* Answer a request without a message: it loads the model or, with a keep_alive of 0, unloads it. */
static lm_status answer_loaded(lm_call *c, bool chat, lm_error *e)
{
    double seconds = 0;
    bool given;

    LM_TRY(read_keep_alive(c, &given, &seconds, e));
    if (given && seconds >= 0 && seconds <= 0) {
        lm_models_keep(c->service, 0);
        return lm_answer_json(c, empty_answer(c, chat, "unload"), e);
    }
    LM_TRY(load_model(c, given, seconds, e));
    return lm_answer_json(c, empty_answer(c, chat, "load"), e);
}

/* Take the constraints from the request or from its options, not from both. `format` is one of the
 * request. */
static lm_status join_constraints(lm_ollama_turn *v, lm_error *e)
{
    static const lm_constraints none = { .compact = true };
    lm_constraints *given = &v->turn.constraints;
    json_t *format = v->constraints.format;

    v->constraints.format = NULL;
    bool inner = memcmp(given, &none, sizeof none) != 0,
         outer = memcmp(&v->constraints, &none, sizeof none) != 0;
    if (inner && outer)
        return lm_fail(e, LM_USAGE, "options", LM_NO_OFFSET,
                       "'options' has a constraint, and the request has another; only one may be given");
    if (inner)
        given->body = v->options;
    else
        *given = v->constraints;
    given->format = format;
    return LM_OK;
}

/* Read the object `options`. The request's own `stream` counts, not one in it. */
static lm_status read_options(lm_call *c, lm_ollama_turn *v, lm_error *e)
{
    bool stream = v->turn.stream;

    if (v->options)
        LM_TRY(lm_fields_read(option_groups, v->options, v, c->warnings, e));
    v->turn.stream = stream;
    v->turn.prompt_only = !v->turn.max_tokens && json_is_number(json_object_get(v->options, "num_predict"));
    return join_constraints(v, e);
}

/* Let the turn answer `messages`, which become those of lm_dialogue_prompt. */
static lm_status read_dialogue(lm_call *c, lm_turn *t, const json_t *messages, lm_error *e)
{
    json_t *converted;

    t->continue_final = true;
    LM_TRY(lm_ollama_think(c->service, ((const lm_ollama_turn *)t)->think, t, e));
    LM_TRY(lm_ollama_messages(messages, &converted, e));
    t->body.messages = lm_turn_keep(t, converted);
    return LM_OK;
}

static lm_status read_chat(lm_call *c, lm_turn *t, lm_error *e)
{
    return read_dialogue(c, t, t->body.messages, e);
}

/* Read a prompt without the chat template, to be continued; with `suffix`, to generate the text between
 * both. */
static lm_status read_raw(lm_call *c, lm_turn *t, lm_error *e)
{
    const lm_ollama_turn *v = (const lm_ollama_turn *)t;
    const lm_fim middle = { .prefix = v->prompt, .suffix = v->suffix };
    lm_tokens *prompt;

    if (v->system)
        return lm_fail(e, LM_USAGE, "system", LM_NO_OFFSET,
                       "'system' requires the chat template, which this request does not use");
    LM_TRY(lm_ollama_think(c->service, v->think, t, e));
    LM_TRY(lm_prompts_one(&t->prompts, &prompt, e));
    return v->suffix && *v->suffix
               ? lm_fim_prompt(c->service, &middle, prompt, e)
               : lm_tokenize(c->service->tokenizer, v->prompt, strlen(v->prompt), LM_ADD_SPECIAL, prompt, e);
}

static lm_status read_generate(lm_call *c, lm_turn *t, lm_error *e)
{
    const lm_ollama_turn *v = (const lm_ollama_turn *)t;
    bool middle = v->suffix && *v->suffix;
    json_t *messages;
    lm_status status;

    if (middle && !lm_fim_supported(c->service))
        return lm_fail(e, LM_USAGE, "suffix", LM_NO_OFFSET, "%s does not support insert", c->service->name);
    if (v->raw || !c->service->template || middle)
        return read_raw(c, t, e);
    messages = json_pack("[o*, {s:s, s:s}]",
                         v->system ? json_pack("{s:s, s:s}", "role", "system", "content", v->system) : NULL,
                         "role", "user", "content", v->prompt);
    status = read_dialogue(c, t, messages, e);
    json_decref(messages);
    return status;
}

/* Begin the response. The model must be in memory. */
static lm_status write(lm_call *c, bool chat, lm_error *e)
{
    lm_ollama_turn *v = c->values;
    lm_turn *t = &v->turn;

    lm_turn_begin(c, t, &lm_ollama_writer);
    v->chat = chat;
    t->read = chat ? read_chat : read_generate;
    t->aliases[0] = (lm_field_alias){ "prompt", chat ? "messages" : "prompt" };
    LM_TRY(read_options(c, v, e));
    LM_TRY(lm_turn_check_logprobs(t, e));
    return lm_turn_answer(c, t, e);
}

static lm_status answer_chat(lm_call *c, lm_error *e)
{
    if (!json_array_size(((const lm_turn *)c->values)->body.messages))
        return answer_loaded(c, true, e);
    LM_TRY(take_model(c, e));
    return write(c, true, e);
}

static lm_status answer_generate(lm_call *c, lm_error *e)
{
    const lm_ollama_turn *v = c->values;

    if (!v->prompt || !*v->prompt)
        return answer_loaded(c, false, e);
    LM_TRY(take_model(c, e));
    return write(c, false, e);
}

const lm_route lm_route_ollama_chat = {
    .method = "POST", .path = "/api/chat", .flags = LM_ROUTE_ASKS, .dialect = LM_DIALECT_OLLAMA,
    .summary = "answer a conversation, ollama-compatible",
    .groups = chat_groups, .values_size = sizeof(lm_ollama_turn), .defaults = lm_ollama_defaults,
    .handle = answer_chat,
};
const lm_route lm_route_ollama_generate = {
    .method = "POST", .path = "/api/generate", .flags = LM_ROUTE_ASKS, .dialect = LM_DIALECT_OLLAMA,
    .summary = "answer a message, ollama-compatible",
    .groups = generate_groups, .values_size = sizeof(lm_ollama_turn), .defaults = lm_ollama_defaults,
    .handle = answer_generate,
};

/* ---- embeddings ---- */

static json_t *embed_document(const lm_read_job *r)
{
    json_t *vectors = json_array();

    for (size_t i = 0; i < lm_read_job_count(r); i++)
        json_array_append_new(vectors, lm_embedding_json(r, i));
    return json_pack("{s:s, s:o, s:i, s:i, s:I}", "model", lm_read_job_service(r)->name, "embeddings",
                     vectors, "total_duration", 0, "load_duration", 0, "prompt_eval_count",
                     (json_int_t)lm_read_job_all_tokens(r));
}

static lm_status answer_embed(lm_call *c, lm_error *e)
{
    const lm_ollama_turn *v = c->values;

    LM_TRY(take_model(c, e));
    if (!v->input || (json_is_array(v->input) && !json_array_size(v->input)))
        return lm_answer_json(c, json_pack("{s:s, s:[]}", "model", c->service->name, "embeddings"), e);
    return lm_embeddings(c, v->input, v->dimensions, v->turn.truncate, false, embed_document, e);
}

const lm_route lm_route_ollama_embed = {
    .method = "POST", .path = "/api/embed", .flags = LM_ROUTE_ASKS, .dialect = LM_DIALECT_OLLAMA,
    .summary = "compute embedding vectors, ollama-compatible",
    .groups = embed_groups, .values_size = sizeof(lm_ollama_turn), .handle = answer_embed,
};

/* The older format: one text, and its vector, not normalized. */
static json_t *old_embed_document(const lm_read_job *r)
{
    return json_pack("{s:o}", "embedding", lm_embedding_json(r, 0));
}

static lm_status answer_old_embed(lm_call *c, lm_error *e)
{
    const lm_ollama_turn *v = c->values;

    LM_TRY(take_model(c, e));
    if (!v->prompt || !*v->prompt)
        return lm_answer_json(c, json_pack("{s:[]}", "embedding"), e);
    return lm_embeddings(c, json_object_get(c->body, "prompt"), 0, false, true, old_embed_document, e);
}

const lm_route lm_route_ollama_embeddings = {
    .method = "POST", .path = "/api/embeddings", .flags = LM_ROUTE_ASKS, .dialect = LM_DIALECT_OLLAMA,
    .summary = "compute an embedding vector, ollama's older format",
    .groups = old_embed_groups, .values_size = sizeof(lm_ollama_turn), .handle = answer_old_embed,
};
