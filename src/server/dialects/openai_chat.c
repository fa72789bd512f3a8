/* openai_chat.c - POST /v1/chat/completions: its fields, its writer, and how a conversation is read. Read
 * from answer_chat upwards. */
#include <stdlib.h>
#include <string.h>

#include "server/ask/token_json.h"
#include "server/dialects/openai.h"
#include "server/dialects/routes.h"

typedef struct chat_turn {
    lm_turn     turn;
    const char *reasoning_format;
    json_t     *continue_final;
    json_t     *customs;                 /* members: the names of custom tools; NULL: none */
    bool        sends_usage;             /* in the last chunk of a stream */
    bool        both;                    /* reasoning under both of its names */
} chat_turn;

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(chat_turn, field)

static const char *const automatic[] = { "auto", "default", NULL };
static const char *const none_only[] = { "none", NULL }, *const text_only[] = { "text", NULL };

static const lm_field chat_fields[] = {
    { "messages", LM_FIELD_ARRAY, B(messages), 0, 0, NULL, true,
      "the conversation: objects with role and content" },
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "max_completion_tokens", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false,
      "maximum number of tokens to generate; -1: until the context is full" },
    { "max_tokens", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false,
      "older name of max_completion_tokens" },
    { "n_predict", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false,
      "llama.cpp's name of max_completion_tokens" },
    { "n", LM_FIELD_U32, T(n), 1, 8, NULL, false, "number of answers to generate" },
    { "logprobs", LM_FIELD_BOOL, T(logprobs), 0, 0, NULL, false, "log-probability of each token" },
    { "top_logprobs", LM_FIELD_U32, T(top_logprobs), 0, 20, NULL, false,
      "number of most probable tokens returned per position; requires logprobs" },
    { "stream_options", LM_FIELD_OBJECT, B(stream_options), 0, 0, NULL, false,
      "include_usage: send usage in the last event" },
    { "chat_template_kwargs", LM_FIELD_OBJECT, B(kwargs), 0, 0, NULL, false,
      "variables of the chat template; warnings names those that it does not use" },
    { "add_generation_prompt", LM_FIELD_BOOL, T(generation_prompt), 0, 0, NULL, false,
      "add the start of the answer to the prompt (true)" },
    { "continue_final_message", LM_FIELD_ANY, V(continue_final), 0, 0, NULL, false,
      "continue the last message, if it is the assistant's (true)" },
    { "cache_prompt", LM_FIELD_BOOL, T(cache_prompt), 0, 0, NULL, false, "use the prefix cache (true)" },
    { "tools", LM_FIELD_ARRAY, B(tools), 0, 0, NULL, false,
      "tools that may be called: {type: function, function: {name, description, parameters}}, or {type: "
      "custom, custom: {name, description, format}}, with a text or a grammar" },
    { "tool_choice", LM_FIELD_ANY, B(tool_choice), 0, 0, NULL, false,
      "none, auto, required, the function to call, or allowed_tools; a required call matches the schema "
      "of the function" },
    { "parallel_tool_calls", LM_FIELD_BOOL, T(parallel_calls), 0, 0, NULL, false,
      "allow several tool calls in one answer (true)" },
    { "reasoning_effort", LM_FIELD_STRING, B(effort), 0, 0, NULL, false,
      "none, minimal, low, medium, high, xhigh or max, if the chat template supports it" },
    { "reasoning_budget", LM_FIELD_I64, T(reasoning_budget), -1, 1e9, NULL, false,
      "maximum number of reasoning tokens, after which reasoning ends; -1: no limit" },
    { "thinking_budget_tokens", LM_FIELD_I64, T(reasoning_budget), -1, 1e9, NULL, false,
      "llama.cpp's name of reasoning_budget" },
    { "thinking_token_budget", LM_FIELD_I64, T(reasoning_budget), -1, 1e9, NULL, false,
      "vLLM's name of reasoning_budget" },
    LM_REFUSED("echo", "use /v1/completions"), LM_REFUSED("stop_sequences", "use stop"),
    { "best_of", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "use /v1/completions" },
    LM_REFUSED("add_special_tokens", "the chat template adds them"),
    LM_REFUSED("documents", "use chat_template_kwargs"),
    LM_REFUSED("chat_template", "the server sets the template: --chat-template-file"),
    LM_REFUSED("web_search_options", "the server does not search"),
    LM_REFUSED("tool_prompt", "use tools and the chat template"),
    LM_REFUSED("guideline", "use chat_template_kwargs"),
    { "parse_tool_calls", LM_FIELD_BOOL, T(parse_tool_calls), 0, 0, NULL, false,
      "calls stand apart from the content (true)" },
    LM_REFUSED("functions", "use tools"),
    { "function_call", LM_FIELD_REFUSED, 0, 0, 0, none_only, false, "use tool_choice" },
    { "modalities", LM_FIELD_REFUSED, 0, 0, 0, text_only, false, "only text is generated" },
    LM_REFUSED("audio", "only text is generated"), LM_IGNORED("prediction"),
    { "reasoning_format", LM_FIELD_STRING, V(reasoning_format), 0, 0, NULL, false,
      "none: reasoning is part of the content; auto, deepseek: it is returned in reasoning_content; both: "
      "also in reasoning" },
    { "service_tier", LM_FIELD_REFUSED, 0, 0, 0, automatic, false, "there is one" },
    LM_IGNORED("user"), LM_IGNORED("metadata"), LM_IGNORED("store"), LM_IGNORED("safety_identifier"),
    LM_IGNORED("prompt_cache_key"), LM_IGNORED("verbosity"),
    { 0 },
};

static const lm_field_group chat_groups[] = {
    { chat_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_trace_fields, 0 },
    { lm_constraints_fields, T(constraints) }, { 0 },
};

static void chat_defaults(const lm_service *s, void *values)
{
    lm_turn_defaults(s, values);
}

/* ---- log-probabilities ---- */

/* Return the log-probabilities of the tokens not sent yet, and clear them. */
static json_t *take_logprobs(const lm_service *s, lm_choice *c)
{
    json_t *content;

    if (!c->tokens)
        return json_null();
    content = lm_token_logprobs(s->tokenizer, c->tokens);
    json_array_clear(c->tokens);
    return json_pack("{s:o}", "content", content);
}

/* ---- the response ---- */

static json_t *usage_json(const lm_turn *t)
{
    const lm_turn_usage u = lm_turn_used(t);
    json_t *o = lm_openai_usage(&u);

    json_object_set_new(o, "completion_tokens_details",
                        json_pack("{s:I}", "reasoning_tokens", (json_int_t)u.reasoning));
    return o;
}

static json_t *chunk(const lm_turn *t, json_t *choices)
{
    json_t *o = lm_openai_document(t, "chat.completion.chunk", choices);

    if (((const chat_turn *)t)->sends_usage)
        json_object_set_new(o, "usage", json_null());    /* the last chunk has it */
    return o;
}

static void send_chunk(lm_turn *t, const lm_choice *c, json_t *delta, json_t *logprobs, const char *reason)
{
    json_t *o = chunk(t, json_pack("[{s:i, s:o, s:o, s:s?}]", "index", (int)c->index, "delta", delta,
                                   "logprobs", logprobs, "finish_reason", reason));

    lm_turn_piece(t, c, o);
    lm_turn_send(t, NULL, o);
}

static void chat_begin(lm_turn *t)
{
    for (size_t i = 0; i < t->n_choices; i++)
        send_chunk(t, t->choices + i, json_pack("{s:s, s:n}", "role", "assistant", "content"), json_null(),
                   NULL);
}

static void chat_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    send_chunk(t, c, json_pack("{s:s%}", "content", text, n), take_logprobs(t->service, c), NULL);
}

static const json_t *last_call(const lm_choice *c)
{
    return json_array_get(c->calls, json_array_size(c->calls) - 1);
}

static bool is_custom(const lm_turn *t, const json_t *call)
{
    const char *name = json_string_value(json_object_get(call, "name"));

    return name && json_object_get(((const chat_turn *)t)->customs, name);
}

/* Return {custom: {input}} of a call's arguments. */
static json_t *custom_input(const char *arguments, size_t n)
{
    json_t *all = lm_openai_input(arguments, n), *input = json_object_get(all, "input");
    json_t *o = json_pack("{s:{s:O}}", "custom", "input", json_is_string(input) ? input : NULL);

    if (!o)
        o = json_pack("{s:{s:s}}", "custom", "input", "");
    json_decref(all);
    return o;
}

/* Return the part of a call of a custom tool, whose input is sent in one piece. NULL: nothing is sent. */
static json_t *custom_part(const lm_choice *c, const lm_answer_event *event)
{
    json_t *o = NULL;

    if (event->kind == LM_ANSWER_CALL)
        o = json_pack("{s:s, s:s, s:{s:s%, s:s}}", "id", event->id, "type", "custom", "custom", "name",
                      event->text, event->size, "input", "");
    else if (event->kind == LM_ANSWER_CALL_END)
        o = custom_input(c->arguments.data ? c->arguments.data : "", c->arguments.size);
    json_object_set_new(o, "index", json_integer(event->call));
    return o;
}

/* Return the part of a call of a function. NULL: nothing is sent. */
static json_t *function_part(const lm_answer_event *event)
{
    if (event->kind == LM_ANSWER_CALL)
        return json_pack("{s:i, s:s, s:s, s:{s:s%, s:s}}", "index", (int)event->call, "id", event->id, "type",
                         "function", "function", "name", event->text, event->size, "arguments", "");
    if (event->kind == LM_ANSWER_ARGUMENTS)
        return json_pack("{s:i, s:{s:s%}}", "index", (int)event->call, "function", "arguments", event->text,
                         event->size);
    return NULL;
}

static void chat_part(lm_turn *t, lm_choice *c, const lm_answer_event *event)
{
    json_t *call, *delta = NULL;

    if (event->kind == LM_ANSWER_REASONING) {
        delta = json_pack("{s:s%}", "reasoning_content", event->text, event->size);
        if (((const chat_turn *)t)->both)
            json_object_set(delta, "reasoning", json_object_get(delta, "reasoning_content"));
    } else if ((call = is_custom(t, last_call(c)) ? custom_part(c, event) : function_part(event))) {
        delta = json_pack("{s:[o]}", "tool_calls", call);
    }
    if (delta)
        send_chunk(t, c, delta, json_null(), NULL);
}

static void chat_trace(lm_turn *t, lm_choice *c, json_t *trace)
{
    (void)c;
    lm_openai_trace(t, chunk(t, json_array()), trace);
}

static void chat_end(lm_turn *t, lm_choice *c)
{
    send_chunk(t, c, json_object(), json_null(), lm_turn_reason(c));
}

static json_t *call_json(const lm_turn *t, const json_t *call)
{
    const json_t *name = json_object_get(call, "name"), *arguments = json_object_get(call, "arguments");
    json_t *o;

    if (!is_custom(t, call))
        return json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(call, "id"), "type", "function",
                         "function", "name", name, "arguments", arguments);
    o = custom_input(json_string_value(arguments), json_string_length(arguments));
    json_object_set(o, "id", json_object_get(call, "id"));
    json_object_set_new(o, "type", json_string("custom"));
    json_object_set(json_object_get(o, "custom"), "name", json_object_get(call, "name"));
    return o;
}

static json_t *message_json(const lm_turn *t, const lm_choice *c)
{
    json_t *o = json_pack("{s:s, s:s%, s:n}", "role", "assistant", "content",
                          c->text.data ? c->text.data : "", c->text.size, "refusal");
    json_t *calls, *call;
    size_t i;

    if (c->reasoning.size)
        json_object_set_new(o, "reasoning_content", json_stringn(c->reasoning.data, c->reasoning.size));
    if (c->reasoning.size && ((const chat_turn *)t)->both)
        json_object_set(o, "reasoning", json_object_get(o, "reasoning_content"));
    if (!c->calls)
        return o;
    if (!c->text.size)
        json_object_set_new(o, "content", json_null());
    calls = json_array();
    json_array_foreach(c->calls, i, call)
        json_array_append_new(calls, call_json(t, call));
    json_object_set_new(o, "tool_calls", calls);
    return o;
}

static void chat_finish(lm_turn *t)
{
    json_t *choices = json_array();

    for (size_t i = 0; !t->stream && i < t->n_choices; i++) {
        lm_choice *c = t->choices + i;
        json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s}", "index", (int)c->index, "message",
                                                 message_json(t, c), "logprobs", take_logprobs(t->service, c),
                                                 "finish_reason", lm_turn_reason(c)));
    }
    lm_openai_finish(t, t->stream ? "chat.completion.chunk" : "chat.completion", choices,
                     ((const chat_turn *)t)->sends_usage, usage_json(t));
}

static void chat_progress(lm_turn *t, lm_choice *c, json_t *progress)
{
    json_t *o = lm_openai_document(t, "chat.completion.chunk",
                                   json_pack("[{s:i, s:{}, s:n, s:n}]", "index", (int)c->index, "delta",
                                             "logprobs", "finish_reason"));

    json_object_set_new(o, "prompt_progress", progress);
    lm_turn_piece(t, c, o);
    lm_turn_send(t, NULL, o);
}

/* ---- the request ---- */

/* Check continue_final_message. *on: continue the last message if it is the assistant's; without the field,
 * true unless add_generation_prompt is given as true. */
static lm_status check_continuation(const lm_call *c, const chat_turn *v, bool *on, lm_error *e)
{
    const json_t *messages = v->turn.body.messages,
                 *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *wanted = v->continue_final;
    const char *role = json_string_value(json_object_get(last, "role")), *word = json_string_value(wanted);
    bool wanted_on = json_is_true(wanted) ||
                     (word && (strcmp(word, "content") == 0 || strcmp(word, "reasoning_content") == 0));

    *on = wanted ? wanted_on : !json_is_true(json_object_get(c->body, "add_generation_prompt"));
    if (wanted && !wanted_on && !json_is_false(wanted))
        return lm_fail(e, LM_USAGE, "continue_final_message", LM_NO_OFFSET,
                       "'continue_final_message' must be true or false");
    if (wanted_on && json_is_true(json_object_get(c->body, "add_generation_prompt")))
        return lm_fail(e, LM_USAGE, "continue_final_message", LM_NO_OFFSET,
                       "'continue_final_message' cannot be combined with \"add_generation_prompt\": true");
    if (wanted_on &&
        (!role || strcmp(role, "assistant") || json_array_size(json_object_get(last, "tool_calls"))))
        return lm_fail(e, LM_USAGE, "continue_final_message", LM_NO_OFFSET,
                       "'continue_final_message' requires that the last message is text of the assistant");
    return LM_OK;
}

static lm_status read_chat(lm_call *c, lm_turn *t, lm_error *e)
{
    const chat_turn *v = (const chat_turn *)t;
    const char *format = v->reasoning_format;

    t->reasoning_field = "reasoning_effort";
    LM_TRY(lm_openai_customs(t, &((chat_turn *)t)->customs, e));
    LM_TRY(check_continuation(c, v, &t->continue_final, e));
    if (format && strcmp(format, "none") && strcmp(format, "auto") && strcmp(format, "deepseek") &&
        strcmp(format, "both"))
        return lm_fail(e, LM_USAGE, "reasoning_format", LM_NO_OFFSET,
                       "'reasoning_format' has the unknown value \"%.40s\": expected none, auto, deepseek or "
                       "both",
                       format);
    t->merge_reasoning = format && strcmp(format, "none") == 0;
    return LM_OK;
}

static lm_status prepare_chat(lm_call *c, lm_turn *t, lm_error *e)
{
    chat_turn *v = (chat_turn *)t;

    v->both = v->reasoning_format && strcmp(v->reasoning_format, "both") == 0;
    return lm_openai_wants_usage(c, t->body.stream_options, &v->sends_usage, e);
}

static void release_chat(lm_turn *t)
{
    json_decref(((chat_turn *)t)->customs);
}

static const lm_writer chat_writer = { .dialect = LM_DIALECT_OPENAI, .type = "text/event-stream",
                                       .id_prefix = "chatcmpl-", .prepare = prepare_chat, .begin = chat_begin,
                                       .text = chat_text, .part = chat_part, .end = chat_end,
                                       .finish = chat_finish, .fault = lm_turn_fault,
                                       .progress = chat_progress, .trace = chat_trace,
                                       .alive = lm_turn_waiting, .release = release_chat };

/* Whether 0 tokens are requested: the prompt is processed, and nothing is generated. */
static bool is_none(const json_t *body)
{
    static const char *const names[] = { "max_completion_tokens", "max_tokens", "n_predict", NULL };

    for (size_t i = 0; names[i]; i++)
        if (json_is_number(json_object_get(body, names[i])))
            return json_number_value(json_object_get(body, names[i])) == 0;
    return false;
}

/* Return the turn of the call, which reads a conversation. */
static lm_turn *begin(lm_call *c)
{
    lm_turn *t = c->values;

    lm_turn_begin(c, t, &chat_writer);
    t->read = read_chat;
    t->aliases[0] = (lm_field_alias){ "prompt", "messages" };
    return t;
}

static lm_status answer_chat(lm_call *c, lm_error *e)
{
    lm_turn *t = begin(c);

    t->prompt_only = is_none(c->body);
    LM_TRY(lm_turn_check_logprobs(t, e));
    return lm_turn_answer(c, t, e);
}

/* Count the tokens of the prompt, without generating. */
static lm_status answer_chat_tokens(lm_call *c, lm_error *e)
{
    json_int_t n;

    LM_TRY(lm_turn_count(c, begin(c), &n, e));
    return lm_answer_json(c, json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", n),
                          e);
}

const lm_route lm_route_chat_tokens = {
    .method = "POST", .path = "/v1/chat/completions/input_tokens", .also = "/chat/completions/input_tokens",
    .dialect = LM_DIALECT_OPENAI,
    .summary = "count conversation tokens",
    .groups = chat_groups, .values_size = sizeof(chat_turn), .defaults = chat_defaults,
    .handle = answer_chat_tokens,
};
const lm_route lm_route_chat_completions = {
    .method = "POST", .path = "/v1/chat/completions", .also = "/chat/completions",
    .dialect = LM_DIALECT_OPENAI,
    .summary = "answer a conversation",
    .groups = chat_groups, .values_size = sizeof(chat_turn), .defaults = chat_defaults, .handle = answer_chat,
};
