/* POST /v1/messages and /v1/messages/count_tokens: Anthropic's words. */
#include <stdlib.h>
#include <string.h>

#include "server/asked.h"
#include "server/routes.h"

typedef struct message_values {
    lm_asked    asked;
    const char *model;
    json_t     *messages, *system, *stops;
    int64_t     max_tokens;
} message_values;

#define V(field) offsetof(message_values, field)

static const char *const off[] = { "disabled", NULL };

static const lm_field message_fields[] = {
    { "messages", LM_FIELD_ARRAY, V(messages), 0, 0, NULL, true, "the conversation" },
    { "max_tokens", LM_FIELD_I64, V(max_tokens), 1, 1e9, NULL, true, "most tokens to write" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; where there is one model, any" },
    { "system", LM_FIELD_ANY, V(system), 0, 0, NULL, false, "system message: string, or array of text blocks" },
    { "stop_sequences", LM_FIELD_ARRAY, V(stops), 0, 0, NULL, false, "strings that end the text" },
    { "temperature", LM_FIELD_FLOAT, V(asked.sampling.temperature), 0, 100, NULL, false, "0: the most probable token" },
    { "top_p", LM_FIELD_FLOAT, V(asked.sampling.top_p), 0, 1, NULL, false, "nucleus sampling; 1: off" },
    { "top_k", LM_FIELD_I32, V(asked.sampling.top_k), -1, 1e9, NULL, false, "keep the K most probable tokens; 0: all" },
    { "seed", LM_FIELD_I64, V(asked.seed), -1, 9e15, NULL, false, "same request and seed, same text; -1: drawn" },
    { "stream", LM_FIELD_BOOL, V(asked.stream), 0, 0, NULL, false, "send the text as it is written" },
    { "tools", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "tool calls" },
    { "thinking", LM_FIELD_REFUSED, 0, 0, 0, off, false, "reasoning is part of the content" },
    { "metadata", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "cache_control", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { 0 },
};
static const lm_field count_fields[] = {
    { "messages", LM_FIELD_ARRAY, V(messages), 0, 0, NULL, true, "the conversation" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; where there is one model, any" },
    { "system", LM_FIELD_ANY, V(system), 0, 0, NULL, false, "system message: string, or array of text blocks" },
    { "tools", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "tool calls" },
    { 0 },
};
static const lm_field_group message_groups[] = { { message_fields, 0 }, { 0 } }, count_groups[] = { { count_fields, 0 }, { 0 } };

static void message_defaults(const lm_service *s, void *values)
{
    lm_asked_defaults(s, &((message_values *)values)->asked);
}

/* ---- the prompt ---- */

/* The text of a system message of blocks. The block that names a client's billing is other with every request, and would keep any prefix
 * from being found again: it is left out. */
static lm_status system_text(const json_t *system, lm_text *out, lm_error *e)
{
    if (json_is_string(system))
        lm_text_add(out, json_string_value(system), json_string_length(system));
    else if (!json_is_array(system))
        return lm_fail(e, LM_USAGE, "system", LM_NO_OFFSET, "expected a string or an array of text blocks");
    for (size_t i = 0; i < json_array_size(system); i++) {
        const json_t *text = json_object_get(json_array_get(system, i), "text");

        if (!json_is_string(text))
            return lm_fail(e, LM_USAGE, "system", LM_NO_OFFSET, "block %zu: only text is read", i);
        if (strncmp(json_string_value(text), "x-anthropic-billing-header:", 27) == 0)
            continue;
        lm_text_printf(out, "%s%s", out->size ? "\n" : "", json_string_value(text));
    }
    return out->failed ? lm_fail_memory(e, "the system message", out->size) : LM_OK;
}

static lm_status read_prompt(lm_call *c, lm_tokens *prompt, lm_error *e)
{
    const message_values *v = c->values;
    json_t *all = json_array();
    lm_text system = { 0 };
    lm_status status = v->system ? system_text(v->system, &system, e) : LM_OK;

    if (status == LM_OK && system.size)
        json_array_append_new(all, json_pack("{s:s, s:s%}", "role", "system", "content", system.data, system.size));
    json_array_extend(all, v->messages);
    if (status == LM_OK)
        status = json_array_size(v->messages) ? lm_chat_prompt(c->service, all, NULL, true, prompt, NULL, e)
                                              : lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "empty");
    lm_text_free(&system);
    json_decref(all);
    return status;
}

/* ---- the answer ---- */

static const char *reason(const lm_choice *c)
{
    switch (c->stop) {
    case LM_STOP_LENGTH:  return "max_tokens";
    case LM_STOP_CONTEXT: return "model_context_window_exceeded";
    case LM_STOP_STRING:  return "stop_sequence";
    default:              return "end_turn";
    }
}

/* Anthropic counts what came from the cache apart from the rest of the prompt. */
static json_t *usage_json(uint64_t prompt, uint64_t cached, uint64_t written)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(prompt - cached), "output_tokens", (json_int_t)written,
                     "cache_creation_input_tokens", (json_int_t)0, "cache_read_input_tokens", (json_int_t)cached);
}

static json_t *message_json(const lm_turn *t, json_t *content, const char *why, json_t *usage)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:n, s:o}", "id", t->id, "type", "message", "role", "assistant", "model",
                     t->service->name, "content", content, "stop_reason", why, "stop_sequence", "usage", usage);
}

static void message_begin(lm_turn *t)
{
    const lm_choice *c = t->choices;

    lm_turn_send(t, "message_start", json_pack("{s:s, s:o}", "type", "message_start", "message",
                                               message_json(t, json_array(), NULL, usage_json(c->n_prompt, 0, 0))));
    lm_turn_send(t, "content_block_start",
                 json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_start", "index", 0, "content_block", "type",
                           "text", "text", ""));
}

static void message_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    (void)c;
    lm_turn_send(t, "content_block_delta",
                 json_pack("{s:s, s:i, s:{s:s, s:s%}}", "type", "content_block_delta", "index", 0, "delta", "type",
                           "text_delta", "text", text, n));
}

static void message_end(lm_turn *t, lm_choice *c)
{
    lm_turn_send(t, "content_block_stop", json_pack("{s:s, s:i}", "type", "content_block_stop", "index", 0));
    lm_turn_send(t, "message_delta",
                 json_pack("{s:s, s:{s:s, s:n}, s:o}", "type", "message_delta", "delta", "stop_reason", reason(c),
                           "stop_sequence", "usage", usage_json(c->usage.n_prompt, c->usage.n_cached, c->usage.n_tokens)));
    lm_turn_send(t, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void message_finish(lm_turn *t)
{
    const lm_choice *c = t->choices;

    if (!t->stream)
        lm_turn_line(t, message_json(t, json_pack("[{s:s, s:s%}]", "type", "text", "text", c->text.data ? c->text.data : "", c->text.size),
                                     reason(c), usage_json(c->usage.n_prompt, c->usage.n_cached, c->usage.n_tokens)));
}

static void message_fault(lm_turn *t, const lm_error *e)
{
    lm_turn_send(t, "error", lm_fault_json(LM_DIALECT_ANTHROPIC, 0, e));
}

static void message_alive(lm_turn *t)
{
    lm_turn_send(t, "ping", json_pack("{s:s}", "type", "ping"));
}

static const lm_writer message_writer = { LM_DIALECT_ANTHROPIC, "text/event-stream", message_begin, message_text, NULL, message_end,
        message_finish,
                                          message_fault, message_alive, NULL };

static lm_status answer_messages(lm_call *c, lm_error *e)
{
    message_values *v = c->values;
    lm_turn_options o = { .n_prompts = 1, .id_prefix = "msg_" };
    lm_asked_parts parts = { 0 };
    lm_tokens prompt = { 0 };
    lm_status status;

    v->asked.stop = v->stops;
    v->asked.max_tokens = v->max_tokens;
    status = lm_asked_options(c, &v->asked, &o, &parts, e);
    if (status == LM_OK)
        status = read_prompt(c, &prompt, e);
    if (status == LM_OK) {
        o.prompts = &prompt;
        status = lm_turn_start(c, &o, &message_writer, e);
    }
    lm_asked_free(&parts);
    lm_tokens_free(&prompt);
    return status;
}

static lm_status answer_count(lm_call *c, lm_error *e)
{
    lm_tokens prompt = { 0 };
    lm_status status = read_prompt(c, &prompt, e);
    json_int_t n = (json_int_t)prompt.n;

    lm_tokens_free(&prompt);
    return status == LM_OK ? lm_answer_json(c, json_pack("{s:I}", "input_tokens", n), e) : status;
}

const lm_route lm_route_messages = { "POST", "/v1/messages", NULL, 0, LM_DIALECT_ANTHROPIC, "answer a conversation, in Anthropic's words",
                                     message_groups, sizeof(message_values), message_defaults, answer_messages };
const lm_route lm_route_count_tokens = { "POST", "/v1/messages/count_tokens", NULL, 0, LM_DIALECT_ANTHROPIC, "tokens of a conversation",
        count_groups,
                                         sizeof(message_values), message_defaults, answer_count };
