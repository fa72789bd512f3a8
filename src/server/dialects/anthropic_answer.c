/* anthropic_answer.c - the response to POST /v1/messages: blocks of thinking, text and tool calls. Read from
 * lm_anthropic_writer upwards. */
#include <stdio.h>
#include <string.h>

#include "server/ask/writer.h"
#include "server/dialects/anthropic.h"

/* ---- documents ---- */

static const char *reason(const lm_choice *c)
{
    switch (c->stop) {
    case LM_STOP_LENGTH:  return "max_tokens";
    case LM_STOP_CONTEXT: return "model_context_window_exceeded";
    case LM_STOP_STRING:  return "stop_sequence";
    default:              return c->calls ? "tool_use" : "end_turn";
    }
}

/* Anthropic counts cached prompt tokens separately from the rest of the prompt. */
static json_t *usage_json(const lm_turn_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(u->prompt - u->cached),
                     "output_tokens", (json_int_t)u->written, "cache_creation_input_tokens", (json_int_t)0,
                     "cache_read_input_tokens", (json_int_t)u->cached);
}

static json_t *message_json(const lm_turn *t, json_t *content, const char *why, const char *stop,
                            json_t *usage)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", t->id, "type", "message",
                          "role", "assistant", "model", t->service->name, "content", content, "stop_reason",
                          why, "stop_sequence", stop, "usage", usage);

    lm_turn_extras(t, o);
    return o;
}

/* Ids made by this server get Anthropic's prefix. */
static json_t *call_id(const char *id)
{
    return strncmp(id, "call_", 5) == 0 ? json_sprintf("toolu_%s", id + 5) : json_string(id);
}

static json_t *call_json(const char *id, const char *name, size_t n, json_t *input)
{
    return json_pack("{s:s, s:o, s:s%, s:o}", "type", "tool_use", "id", call_id(id), "name", name, n, "input",
                     input);
}

static json_t *text_json(const char *text, size_t n)
{
    return json_pack("{s:s, s:s%}", "type", "text", "text", text ? text : "", n);
}

static json_t *thinking_json(const char *text, size_t n)
{
    return json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking", text ? text : "", n, "signature",
                     "");
}

/* The content blocks. A tool call that was cut off has the members of its input that were complete, as
 * clients get from the stream. */
static json_t *content_json(const lm_choice *c)
{
    json_t *content = json_array(), *call;
    size_t i;

    if (c->reasoning.size)
        json_array_append_new(content, thinking_json(c->reasoning.data, c->reasoning.size));
    if (c->text.size)
        json_array_append_new(content, text_json(c->text.data, c->text.size));
    json_array_foreach(c->calls, i, call) {
        const json_t *name = json_object_get(call, "name");

        json_array_append_new(content, call_json(json_string_value(json_object_get(call, "id")),
                                                 json_string_value(name), json_string_length(name),
                                                 lm_turn_arguments_so_far(call)));
    }
    if (!json_array_size(content))
        json_array_append_new(content, text_json("", 0));
    return content;
}

/* ---- events ---- */

static void send_block(lm_turn *t, const char *type, const char *member, json_t *value)
{
    const lm_message_turn *m = (const lm_message_turn *)t;
    json_t *o = json_pack("{s:s, s:i}", "type", type, "index", m->block_index);

    if (value)
        json_object_set_new(o, member, value);
    lm_turn_send(t, type, o);
}

static void close_block(lm_turn *t)
{
    lm_message_turn *m = (lm_message_turn *)t;

    if (m->block == LM_MESSAGE_NONE)
        return;
    if (m->block == LM_MESSAGE_THINKING)
        send_block(t, "content_block_delta", "delta",
                   json_pack("{s:s, s:s}", "type", "signature_delta", "signature", ""));
    send_block(t, "content_block_stop", NULL, NULL);
    m->block = LM_MESSAGE_NONE;
}

/* Open a block of this kind. Takes ownership of `block`. */
static void open_block(lm_turn *t, lm_message_block kind, json_t *block)
{
    lm_message_turn *m = (lm_message_turn *)t;

    close_block(t);
    m->block = kind;
    m->block_index = m->n_blocks++;
    send_block(t, "content_block_start", "content_block", block);
}

static void message_begin(lm_turn *t)
{
    const lm_turn_usage u = { .prompt = t->choices->n_prompt };

    lm_turn_send(t, "message_start", json_pack("{s:s, s:o}", "type", "message_start", "message",
                                               message_json(t, json_array(), NULL, NULL, usage_json(&u))));
}

static void message_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    const lm_message_turn *m = (const lm_message_turn *)t;

    (void)c;
    if (m->block != LM_MESSAGE_TEXT)
        open_block(t, LM_MESSAGE_TEXT, text_json("", 0));
    send_block(t, "content_block_delta", "delta",
               json_pack("{s:s, s:s%}", "type", "text_delta", "text", text, n));
}

static void message_part(lm_turn *t, lm_choice *c, const lm_answer_event *event)
{
    const lm_message_turn *m = (const lm_message_turn *)t;

    (void)c;
    switch (event->kind) {
    case LM_ANSWER_REASONING:
        if (m->block != LM_MESSAGE_THINKING)
            open_block(t, LM_MESSAGE_THINKING, thinking_json("", 0));
        send_block(t, "content_block_delta", "delta",
                   json_pack("{s:s, s:s%}", "type", "thinking_delta", "thinking", event->text, event->size));
        break;
    case LM_ANSWER_CALL:
        open_block(t, LM_MESSAGE_CALL, call_json(event->id, event->text, event->size, json_object()));
        break;
    case LM_ANSWER_ARGUMENTS:
        send_block(t, "content_block_delta", "delta",
                   json_pack("{s:s, s:s%}", "type", "input_json_delta", "partial_json", event->text,
                             event->size));
        break;
    case LM_ANSWER_CALL_END:
        close_block(t);
        break;
    default:
        break;
    }
}

static void message_end(lm_turn *t, lm_choice *c)
{
    const lm_message_turn *m = (const lm_message_turn *)t;
    const lm_turn_usage u = lm_turn_used(t);

    if (!m->n_blocks)
        open_block(t, LM_MESSAGE_TEXT, text_json("", 0));
    close_block(t);
    lm_turn_send(t, "message_delta",
                 json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta", "stop_reason",
                           reason(c), "stop_sequence", c->stop_word, "usage", usage_json(&u)));
    lm_turn_send(t, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void message_finish(lm_turn *t)
{
    const lm_choice *c = t->choices;
    const lm_turn_usage u = lm_turn_used(t);

    if (!t->stream)
        lm_turn_line(t, message_json(t, content_json(c), reason(c), c->stop_word, usage_json(&u)));
}

static void message_fault(lm_turn *t, const lm_error *e)
{
    lm_turn_send(t, "error", lm_fault_json(LM_DIALECT_ANTHROPIC, 0, e));
}

static void message_alive(lm_turn *t)
{
    lm_turn_send(t, "ping", json_pack("{s:s}", "type", "ping"));
}

const lm_writer lm_anthropic_writer = { .dialect = LM_DIALECT_ANTHROPIC, .type = "text/event-stream",
                                        .id_prefix = "msg_", .begin = message_begin, .text = message_text,
                                        .part = message_part, .end = message_end, .finish = message_finish,
                                        .fault = message_fault, .alive = message_alive };
