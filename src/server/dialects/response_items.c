/* response_items.c - response_items.h: at most one item is open; an item of another kind closes it. Threads:
 * the front, in the stage `stream` of a turn. */
#include "server/dialects/response_items.h"

#include <stdio.h>
#include <string.h>

#include "server/ask/writer.h"
#include "server/dialects/openai.h"

void lm_response_event(lm_turn *t, lm_response_items *items, const char *type, json_t *o)
{
    if (!t->stream) {
        json_decref(o);
        return;
    }
    if (o) {
        json_object_set_new(o, "type", json_string(type));
        json_object_set_new(o, "sequence_number", json_integer((json_int_t)items->n_events++));
    }
    lm_turn_send(t, type, o);
}

/* ---- documents ---- */

static const char *text_of(const lm_response_items *items)
{
    return items->text.data ? items->text.data : "";
}

static json_t *part_json(const lm_response_items *items, const char *text, size_t n)
{
    if (items->kind == LM_ITEM_REASONING)
        return json_pack("{s:s, s:s%}", "type", "reasoning_text", "text", text, n);
    return json_pack("{s:s, s:s%, s:[], s:[]}", "type", "output_text", "text", text, n, "annotations",
                     "logprobs");
}

static const json_t *tool_of(const lm_response_items *items)
{
    return json_object_get(items->called, items->name);
}

static const char *type_of(const lm_response_items *items)
{
    const char *type = json_string_value(json_object_get(tool_of(items), "type"));

    return type ? type : "function";
}

/* Return the arguments of the open call, of which the end may be missing. */
static json_t *arguments_json(const lm_response_items *items)
{
    return lm_openai_input(text_of(items), items->text.size);
}

/* Return the open call, in the form of its tool. */
static json_t *call_json(const lm_response_items *items, const char *status, bool whole)
{
    const char *type = type_of(items);
    const json_t *tool = tool_of(items), *name = json_object_get(tool, "name");
    json_t *arguments = NULL;
    json_t *o = json_pack("{s:s, s:s, s:s}", "id", items->id, "status", status, "call_id", items->call_id);

    if (strcmp(type, "function"))
        arguments = whole ? arguments_json(items) : json_object();
    if (strcmp(type, "local_shell") == 0) {
        json_t *action = json_pack("{s:s, s:{}}", "type", "exec", "env");
        json_object_update(action, arguments);
        json_object_set_new(o, "type", json_string("local_shell_call"));
        json_object_set_new(o, "action", action);
    } else {
        bool custom = strcmp(type, "custom") == 0;
        const json_t *input = json_object_get(arguments, "input");
        json_object_set_new(o, "type", json_string(custom ? "custom_tool_call" : "function_call"));
        json_object_set_new(o, "name", json_string(name ? json_string_value(name) : items->name));
        json_object_set_new(o, custom ? "input" : "arguments",
                            custom ? json_stringn(input ? json_string_value(input) : "",
                                                  json_string_length(input))
                                   : json_stringn(text_of(items), whole ? items->text.size : 0));
        if (json_object_get(tool, "namespace"))
            json_object_set(o, "namespace", json_object_get(tool, "namespace"));
    }
    json_decref(arguments);
    return o;
}

/* Return the open item. `whole`: with its content. */
static json_t *item_json(const lm_response_items *items, const char *status, bool whole)
{
    json_t *content = json_array();

    if (items->kind == LM_ITEM_CALL) {
        json_decref(content);
        return call_json(items, status, whole);
    }
    if (whole)
        json_array_append_new(content, part_json(items, text_of(items), items->text.size));
    if (items->kind == LM_ITEM_REASONING)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "type", "reasoning", "id", items->id, "status", status,
                         "summary", "content", content);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", items->id, "role", "assistant",
                     "status", status, "content", content);
}

/* ---- events ---- */

/* Send an event of the open item, with its item_id, output_index and, except for tool calls,
 * content_index. */
static void send_within(lm_turn *t, lm_response_items *items, const char *type, json_t *o)
{
    if (o) {
        json_object_set_new(o, "item_id", json_string(items->id));
        json_object_set_new(o, "output_index", json_integer((json_int_t)json_array_size(items->done)));
        if (items->kind != LM_ITEM_CALL)
            json_object_set_new(o, "content_index", json_integer(0));
    }
    lm_response_event(t, items, type, o);
}

static void send_item(lm_turn *t, lm_response_items *items, const char *type, json_t *item)
{
    lm_response_event(t, items, type,
                      json_pack("{s:I, s:o}", "output_index", (json_int_t)json_array_size(items->done),
                                "item", item));
}

/* Begin an item. Its id is that of its response with another prefix: "resp_1f…" has "msg_1f…", then
 * "fc_1f…_1". */
static void begin(lm_turn *t, lm_response_items *items, lm_item_kind kind)
{
    static const char *const prefixes[] = { "", "msg_", "rs_", "fc_" };
    const char *prefix = kind != LM_ITEM_CALL                         ? prefixes[kind]
                         : strcmp(type_of(items), "custom") == 0      ? "ctc_"
                         : strcmp(type_of(items), "local_shell") == 0 ? "lsh_"
                                                                      : prefixes[kind];
    size_t n = json_array_size(items->done);

    if (!items->done && !(items->done = json_array()))
        t->out->failed = true;
    items->kind = kind;
    lm_text_clear(&items->text);
    snprintf(items->id, sizeof items->id, n ? "%s%s_%zu" : "%s%s", prefix, t->id + strlen("resp_"),
             n);
    send_item(t, items, "response.output_item.added", item_json(items, "in_progress", false));
    if (kind != LM_ITEM_CALL)
        send_within(t, items, "response.content_part.added",
                    json_pack("{s:o}", "part", part_json(items, "", 0)));
}

static void add(lm_turn *t, lm_response_items *items, const char *text, size_t n)
{
    lm_text_add(&items->text, text, n);
    if (items->text.failed)
        t->out->failed = true;
}

void lm_response_item_text(lm_turn *t, lm_response_items *items, lm_item_kind kind, const char *text,
                           size_t n)
{
    if (items->kind != kind) {
        lm_response_item_close(t, items, "completed");
        begin(t, items, kind);
    }
    add(t, items, text, n);
    if (kind == LM_ITEM_REASONING)
        send_within(t, items, "response.reasoning_text.delta", json_pack("{s:s%}", "delta", text, n));
    else
        send_within(t, items, "response.output_text.delta",
                    json_pack("{s:s%, s:[]}", "delta", text, n, "logprobs"));
}

void lm_response_item_call(lm_turn *t, lm_response_items *items, const lm_answer_event *event)
{
    lm_response_item_close(t, items, "completed");
    snprintf(items->call_id, sizeof items->call_id, "%s", event->id);
    snprintf(items->name, sizeof items->name, "%.*s", (int)event->size, event->text);
    begin(t, items, LM_ITEM_CALL);
}

void lm_response_item_arguments(lm_turn *t, lm_response_items *items, const char *text, size_t n)
{
    add(t, items, text, n);
    if (strcmp(type_of(items), "function") == 0)         /* the others are sent when they are whole */
        send_within(t, items, "response.function_call_arguments.delta",
                    json_pack("{s:s%}", "delta", text, n));
}

/* Send the end of the arguments of the open call; those of a custom tool as one piece. */
static void send_call_end(lm_turn *t, lm_response_items *items, const char *status)
{
    json_t *item = item_json(items, status, true), *input = json_object_get(item, "input");

    if (input) {
        send_within(t, items, "response.custom_tool_call_input.delta", json_pack("{s:O}", "delta", input));
        send_within(t, items, "response.custom_tool_call_input.done", json_pack("{s:O}", "input", input));
    } else if (json_object_get(item, "arguments")) {
        send_within(t, items, "response.function_call_arguments.done",
                    json_pack("{s:O, s:O}", "arguments", json_object_get(item, "arguments"), "name",
                              json_object_get(item, "name")));
    }
    json_decref(item);
}

void lm_response_item_close(lm_turn *t, lm_response_items *items, const char *status)
{
    json_t *item;

    if (items->kind == LM_ITEM_NONE)
        return;
    if (items->kind == LM_ITEM_CALL) {
        send_call_end(t, items, status);
    } else if (items->kind == LM_ITEM_REASONING) {
        send_within(t, items, "response.reasoning_text.done",
                    json_pack("{s:s%}", "text", text_of(items), items->text.size));
    } else {
        send_within(t, items, "response.output_text.done",
                    json_pack("{s:s%, s:[]}", "text", text_of(items), items->text.size, "logprobs"));
    }
    if (items->kind != LM_ITEM_CALL)
        send_within(t, items, "response.content_part.done",
                    json_pack("{s:o}", "part", part_json(items, text_of(items), items->text.size)));
    item = item_json(items, status, true);
    send_item(t, items, "response.output_item.done", json_incref(item));
    json_array_append_new(items->done, item);
    items->kind = LM_ITEM_NONE;
}

void lm_response_items_end(lm_turn *t, lm_response_items *items, const char *status)
{
    if (items->kind == LM_ITEM_NONE && !json_array_size(items->done))
        begin(t, items, LM_ITEM_MESSAGE);
    lm_response_item_close(t, items, status);
}

void lm_response_items_free(lm_response_items *items)
{
    json_decref(items->done);
    json_decref(items->called);
    lm_text_free(&items->text);
}
