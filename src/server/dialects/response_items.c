/* response_items.c - response_items.h: at most one item is open; an item of another kind closes it. Threads:
 * the front, in the stage `stream` of a turn. */
#include "server/dialects/response_items.h"

#include <stdio.h>
#include <string.h>

#include "server/ask/writer.h"

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

/* Return the open item. `whole`: with its content. */
static json_t *item_json(const lm_response_items *items, const char *status, bool whole)
{
    json_t *content = json_array();

    if (items->kind == LM_ITEM_CALL) {
        json_decref(content);
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s%}", "type", "function_call", "id", items->id,
                         "status", status, "call_id", items->call_id, "name", items->name, "arguments",
                         text_of(items), whole ? items->text.size : (size_t)0);
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
    size_t n = json_array_size(items->done);

    if (!items->done && !(items->done = json_array()))
        t->out->failed = true;
    items->kind = kind;
    lm_text_clear(&items->text);
    snprintf(items->id, sizeof items->id, n ? "%s%s_%zu" : "%s%s", prefixes[kind], t->id + strlen("resp_"),
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
    send_within(t, items, "response.function_call_arguments.delta", json_pack("{s:s%}", "delta", text, n));
}

void lm_response_item_close(lm_turn *t, lm_response_items *items, const char *status)
{
    json_t *item;

    if (items->kind == LM_ITEM_NONE)
        return;
    if (items->kind == LM_ITEM_CALL) {
        send_within(t, items, "response.function_call_arguments.done",
                    json_pack("{s:s%, s:s}", "arguments", text_of(items), items->text.size, "name",
                              items->name));
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
    lm_text_free(&items->text);
}
