/* response_events.c - the response to POST /v1/responses, as a document or as events, and how it is stored.
 * Its items: response_items.h. Read from lm_response_writer upwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ask/writer.h"
#include "server/store/archive.h"
#include "server/dialects/responses.h"

/* Return the members of the response that repeat the request. */
static json_t *settings_json(const lm_response_turn *v)
{
    json_t *text = v->text ? json_copy(v->text) : json_object();

    if (!json_object_get(text, "format"))
        json_object_set_new(text, "format", json_pack("{s:s}", "type", "text"));
    return json_pack("{s:s?, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:s?, s:{s:s?, s:n}, s:b, s:o, s:s, s:b}",
                     "instructions", v->instructions, "max_output_tokens",
                     v->max_output_tokens ? json_integer((json_int_t)v->max_output_tokens) : json_null(),
                     "metadata", v->metadata ? json_incref(v->metadata) : json_object(),
                     "parallel_tool_calls", v->turn.parallel_calls, "tool_choice",
                     v->tool_choice ? json_incref(v->tool_choice) : json_string("auto"), "tools",
                     v->tools ? json_incref(v->tools) : json_array(), "temperature",
                     lm_field_float(v->turn.sampling.temperature), "top_p",
                     lm_field_float(v->turn.sampling.top_p),
                     "previous_response_id", v->previous, "reasoning", "effort", v->turn.body.effort,
                     "summary", "store", v->store, "text", text, "truncation", "disabled", "background",
                     false);
}

static lm_status response_prepare(lm_call *c, lm_turn *t, lm_error *e)
{
    lm_response_turn *v = (lm_response_turn *)t;

    (void)c;
    if (!(v->settings = settings_json(v)))
        return lm_fail_memory(e, "the answer", 0);
    v->stored_input = v->store ? json_incref(v->input) : NULL;
    snprintf(v->stored_previous, sizeof v->stored_previous, "%s", v->previous ? v->previous : "");
    return LM_OK;
}

static void response_release(lm_turn *t)
{
    lm_response_turn *v = (lm_response_turn *)t;

    json_decref(v->settings);
    json_decref(v->stored_input);
    lm_response_items_free(&v->items);
}

/* ---- the document ---- */

static json_t *usage_json(const lm_turn *t)
{
    const lm_turn_usage u = lm_turn_used(t);

    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)u.prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)u.cached, "output_tokens",
                     (json_int_t)u.written, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)u.reasoning, "total_tokens", (json_int_t)(u.prompt + u.written));
}

/* Return the response. `ended`: with usage. Takes ownership of `output` and `error` (NULL: none). */
static json_t *response_json(const lm_turn *t, const char *status, json_t *output, bool ended, json_t *error)
{
    const lm_response_turn *own = (const lm_response_turn *)t;
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o*, s:n}", "id", t->id, "object", "response",
                          "created_at", (json_int_t)t->created, "model", t->service->name, "status", status,
                          "output", output, "error", error, "incomplete_details");

    if (!o)
        return NULL;
    if (!error)
        json_object_set_new(o, "error", json_null());
    json_object_update(o, own->settings);
    json_object_set_new(o, "usage", ended ? usage_json(t) : json_null());
    json_object_set_new(o, "completed_at",
                        strcmp(status, "completed") ? json_null() : json_integer((json_int_t)time(NULL)));
    if (strcmp(status, "incomplete") == 0)
        json_object_set_new(o, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    lm_turn_extras(t, o);
    return o;
}

static const char *status_of(const lm_choice *c)
{
    return strcmp(lm_turn_reason(c), "length") ? "completed" : "incomplete";
}

/* ---- the writer ---- */

static lm_response_items *items_of(lm_turn *t)
{
    return &((lm_response_turn *)t)->items;
}

static void response_begin(lm_turn *t)
{
    static const char *const events[] = { "response.created", "response.in_progress" };

    for (size_t i = 0; i < 2; i++)
        lm_response_event(t, items_of(t), events[i],
                          json_pack("{s:o}", "response",
                                    response_json(t, "in_progress", json_array(), false, NULL)));
}

static void response_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    (void)c;
    lm_response_item_text(t, items_of(t), LM_ITEM_MESSAGE, text, n);
}

static void response_part(lm_turn *t, lm_choice *c, const lm_answer_event *event)
{
    (void)c;
    switch (event->kind) {
    case LM_ANSWER_REASONING:
        lm_response_item_text(t, items_of(t), LM_ITEM_REASONING, event->text, event->size);
        break;
    case LM_ANSWER_CALL:      lm_response_item_call(t, items_of(t), event); break;
    case LM_ANSWER_ARGUMENTS: lm_response_item_arguments(t, items_of(t), event->text, event->size); break;
    case LM_ANSWER_CALL_END:
        lm_response_item_close(t, items_of(t), event->incomplete ? "incomplete" : "completed");
        break;
    default:                  break;
    }
}

static void response_end(lm_turn *t, lm_choice *c)
{
    lm_response_items_end(t, items_of(t), status_of(c));
}

/* ---- storage ---- */

static const char *prefix_of(const char *type)
{
    static const struct { const char *type, *prefix; } rows[] = {
        { "function_call", "fc" }, { "function_call_output", "fco" }, { "custom_tool_call", "ctc" },
        { "custom_tool_call_output", "ctco" }, { "local_shell_call", "lsh" },
        { "local_shell_call_output", "lsho" }, { "web_search_call", "ws" }, { "reasoning", "rs" },
    };

    for (size_t i = 0; type && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(type, rows[i].type) == 0)
            return rows[i].prefix;
    return "msg";
}

/* Return an input item as it is stored and returned later: with an id, and its content in parts. */
static json_t *stored_item(const lm_turn *t, json_t *item, size_t i)
{
    json_t *o = json_copy(item), *content = json_object_get(item, "content");
    const char *role = json_string_value(json_object_get(item, "role"));
    bool own = role && strcmp(role, "assistant") == 0;

    if (!json_object_get(o, "type"))
        json_object_set_new(o, "type", json_string("message"));
    if (!json_is_string(json_object_get(o, "id")))
        json_object_set_new(o, "id",
                            json_sprintf("%s_%s_%zu",
                                         prefix_of(json_string_value(json_object_get(o, "type"))),
                                         t->id + strlen("resp_"), i));
    if (json_is_string(content) && own)
        json_object_set_new(o, "content",
                            json_pack("[{s:s, s:O, s:[]}]", "type", "output_text", "text", content,
                                      "annotations"));
    else if (json_is_string(content))
        json_object_set_new(o, "content", json_pack("[{s:s, s:O}]", "type", "input_text", "text", content));
    if (role && !json_object_get(o, "status"))
        json_object_set_new(o, "status", json_string("completed"));
    return o;
}

static json_t *stored_input(const lm_turn *t, const json_t *input)
{
    json_t *list = json_array();

    if (json_is_string(input)) {
        json_t *item = json_pack("{s:s, s:O}", "role", "user", "content", input);
        json_array_append_new(list, stored_item(t, item, 0));
        json_decref(item);
    }
    for (size_t i = 0; i < json_array_size(input); i++)
        json_array_append_new(list, stored_item(t, json_array_get(input, i), i));
    return list;
}

static void store(const lm_turn *t, const json_t *response)
{
    const lm_response_turn *own = (const lm_response_turn *)t;
    lm_record r = { 0 };
    json_t *input;

    if (!own->stored_input)
        return;
    input = stored_input(t, own->stored_input);
    snprintf(r.id, sizeof r.id, "%s", t->id);
    memcpy(r.previous, own->stored_previous, sizeof r.previous);
    r.response = json_dumps(response, JSON_COMPACT);
    r.input = json_dumps(input, JSON_COMPACT);
    json_decref(input);
    lm_archive_put(t->account.archive, t->account.owner, &r);
}

static void response_finish(lm_turn *t)
{
    const char *status = status_of(t->choices);
    json_t *o = response_json(t, status, json_incref(items_of(t)->done), true, NULL);

    store(t, o);
    if (t->stream)
        lm_response_event(t, items_of(t),
                          strcmp(status, "completed") ? "response.incomplete" : "response.completed",
                          json_pack("{s:o}", "response", o));
    else
        lm_turn_line(t, o);
}

static void response_fault(lm_turn *t, const lm_error *e)
{
    json_t *error = json_pack("{s:s, s:s}", "code", "server_error", "message", e->message);

    lm_response_event(t, items_of(t), "response.failed",
                      json_pack("{s:o}", "response", response_json(t, "failed", json_array(), false, error)));
}

const lm_writer lm_response_writer = { .dialect = LM_DIALECT_OPENAI, .type = "text/event-stream",
                                       .id_prefix = "resp_", .always = true, .prepare = response_prepare,
                                       .begin = response_begin, .text = response_text, .part = response_part,
                                       .end = response_end, .finish = response_finish,
                                       .fault = response_fault, .alive = lm_turn_waiting,
                                       .release = response_release };
