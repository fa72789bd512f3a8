/* The answer to POST /v1/responses: one message of one text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/archive.h"
#include "server/responses.h"

typedef struct response_own {
    json_t  *settings, *input;       /* `input` NULL: not to be stored */
    char     previous[64];
    lm_text  text;                   /* all so far */
    int64_t  n_events;
} response_own;

void *lm_response_own(json_t *settings, json_t *input, const char *previous)
{
    response_own *own = settings ? calloc(1, sizeof *own) : NULL;

    if (!own) {
        json_decref(settings);
        return NULL;
    }
    own->settings = settings;
    own->input = json_incref(input);
    snprintf(own->previous, sizeof own->previous, "%s", previous ? previous : "");
    return own;
}

static void drop(void *arg)
{
    response_own *own = arg;

    if (!own)
        return;
    json_decref(own->settings);
    json_decref(own->input);
    lm_text_free(&own->text);
    free(own);
}

/* ---- documents ---- */

/* The message has the number of its response: "resp_1f…" writes "msg_1f…". */
static json_t *message_id(const lm_turn *t)
{
    return json_sprintf("msg_%s", t->id + strlen("resp_"));
}

static json_t *part_json(const char *text, size_t n)
{
    return json_pack("{s:s, s:s%, s:[], s:[]}", "type", "output_text", "text", text ? text : "", n, "annotations", "logprobs");
}

static json_t *message_json(const lm_turn *t, const char *status, json_t *content)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:o}", "type", "message", "id", message_id(t), "role", "assistant", "status", status, "content",
                     content);
}

static json_t *usage_json(const lm_usage *u)
{
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", (json_int_t)u->n_prompt, "input_tokens_details", "cached_tokens",
                     (json_int_t)u->n_cached, "output_tokens", (json_int_t)u->n_tokens, "output_tokens_details", "reasoning_tokens", 0,
                     "total_tokens", (json_int_t)(u->n_prompt + u->n_tokens));
}

/* `usage` NULL: not known yet. Takes `output`, and `error` (NULL: none). */
static json_t *response_json(const lm_turn *t, const char *status, json_t *output, const lm_usage *usage, json_t *error)
{
    const response_own *own = t->own;
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o*, s:n}", "id", t->id, "object", "response", "created_at",
                          (json_int_t)t->created, "model", t->service->name, "status", status, "output", output, "error", error,
                          "incomplete_details");

    if (!o)
        return NULL;
    if (!error)
        json_object_set_new(o, "error", json_null());
    json_object_update(o, own->settings);
    json_object_set_new(o, "usage", usage ? usage_json(usage) : json_null());
    json_object_set_new(o, "completed_at", strcmp(status, "completed") ? json_null() : json_integer((json_int_t)time(NULL)));
    if (strcmp(status, "incomplete") == 0)
        json_object_set_new(o, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (t->warnings)
        json_object_set(o, "warnings", t->warnings);
    return o;
}

static const char *status_of(const lm_choice *c)
{
    return strcmp(lm_turn_reason(c), "length") ? "completed" : "incomplete";
}

/* ---- events ---- */

/* Takes `o`, and sends it with its type and number. */
static void send_event(lm_turn *t, const char *type, json_t *o)
{
    response_own *own = t->own;

    if (o) {
        json_object_set_new(o, "type", json_string(type));
        json_object_set_new(o, "sequence_number", json_integer((json_int_t)own->n_events++));
    }
    lm_turn_send(t, type, o);
}

/* With the place that an event of the text has: there is one item of one part. */
static void send_part(lm_turn *t, const char *type, json_t *o)
{
    if (o) {
        json_object_set_new(o, "item_id", message_id(t));
        json_object_set_new(o, "output_index", json_integer(0));
        json_object_set_new(o, "content_index", json_integer(0));
    }
    send_event(t, type, o);
}

static void send_item(lm_turn *t, const char *type, const char *status, json_t *content)
{
    send_event(t, type, json_pack("{s:i, s:o}", "output_index", 0, "item", message_json(t, status, content)));
}

static void response_begin(lm_turn *t)
{
    send_event(t, "response.created", json_pack("{s:o}", "response", response_json(t, "in_progress", json_array(), NULL, NULL)));
    send_event(t, "response.in_progress", json_pack("{s:o}", "response", response_json(t, "in_progress", json_array(), NULL, NULL)));
    send_item(t, "response.output_item.added", "in_progress", json_array());
    send_part(t, "response.content_part.added", json_pack("{s:o}", "part", part_json("", 0)));
}

static void response_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    response_own *own = t->own;

    (void)c;
    lm_text_add(&own->text, text, n);
    if (own->text.failed)
        t->out->failed = true;
    send_part(t, "response.output_text.delta", json_pack("{s:s%, s:[]}", "delta", text, n, "logprobs"));
}

static void response_end(lm_turn *t, lm_choice *c)
{
    const lm_text *all = &((response_own *)t->own)->text;

    send_part(t, "response.output_text.done", json_pack("{s:s%, s:[]}", "text", all->data ? all->data : "", all->size, "logprobs"));
    send_part(t, "response.content_part.done", json_pack("{s:o}", "part", part_json(all->data, all->size)));
    send_item(t, "response.output_item.done", status_of(c), json_pack("[o]", part_json(all->data, all->size)));
}

/* ---- what is stored ---- */

/* An item as it is given back: with an id, its content in parts. */
static json_t *stored_item(const lm_turn *t, json_t *item, size_t i)
{
    json_t *o = json_copy(item), *content = json_object_get(item, "content");
    const char *role = json_string_value(json_object_get(item, "role"));
    bool own = role && strcmp(role, "assistant") == 0;

    if (!json_object_get(o, "type"))
        json_object_set_new(o, "type", json_string("message"));
    if (!json_is_string(json_object_get(o, "id")))
        json_object_set_new(o, "id", json_sprintf("msg_%s_%zu", t->id + strlen("resp_"), i));
    if (json_is_string(content) && own)
        json_object_set_new(o, "content", json_pack("[{s:s, s:O, s:[]}]", "type", "output_text", "text", content, "annotations"));
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
    const response_own *own = t->own;
    lm_record r = { 0 };
    json_t *input;

    if (!own->input)
        return;
    input = stored_input(t, own->input);
    snprintf(r.id, sizeof r.id, "%s", t->id);
    memcpy(r.previous, own->previous, sizeof r.previous);
    r.response = json_dumps(response, JSON_COMPACT);
    r.input = json_dumps(input, JSON_COMPACT);
    json_decref(input);
    lm_archive_put(t->archive, t->owner, &r);
}

static void response_finish(lm_turn *t)
{
    const lm_choice *c = t->choices;
    const lm_text *all = t->stream ? &((response_own *)t->own)->text : &c->text;
    const char *status = status_of(c);
    json_t *output = json_pack("[o]", message_json(t, status, json_pack("[o]", part_json(all->data, all->size))));
    json_t *o = response_json(t, status, output, &c->usage, NULL);

    store(t, o);
    if (t->stream)
        send_event(t, strcmp(status, "completed") ? "response.incomplete" : "response.completed", json_pack("{s:o}", "response", o));
    else
        lm_turn_line(t, o);
}

static void response_fault(lm_turn *t, const lm_error *e)
{
    json_t *error = json_pack("{s:s, s:s}", "code", "server_error", "message", e->message);

    send_event(t, "response.failed", json_pack("{s:o}", "response", response_json(t, "failed", json_array(), NULL, error)));
}

static void response_alive(lm_turn *t)
{
    lm_text_add_str(t->out, ": waiting\n\n");
}

const lm_writer lm_response_writer = { LM_DIALECT_OPENAI, "text/event-stream", response_begin, response_text, NULL, response_end,
                                       response_finish,
                                       response_fault, response_alive, drop };
