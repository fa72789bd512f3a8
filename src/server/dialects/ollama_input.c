/* ollama_input.c - the messages and `think` of ollama's API, as lm_dialogue_prompt takes them. */
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/dialects/ollama.h"

bool lm_ollama_thinks(const lm_service *s)
{
    const char *name = lm_answer_style_name(&s->style);

    return s->style.reasoning || (name && strcmp(name, "harmony") == 0);
}

lm_status lm_ollama_think(const lm_service *s, const json_t *think, lm_turn *t, lm_error *e)
{
    static const char *const efforts[] = { "low", "medium", "high", NULL };
    const char *word = json_string_value(think);
    size_t i = 0;

    t->reasoning_field = "think";
    if (!think || (word && !*word))
        return LM_OK;
    while (word && efforts[i] && strcmp(efforts[i], word))
        i++;
    if (word ? !efforts[i] : !json_is_boolean(think))
        return lm_fail(e, LM_USAGE, "think", LM_NO_OFFSET,
                       "'think' must be true, false, \"low\", \"medium\" or \"high\"");
    if (!json_is_false(think) && !lm_ollama_thinks(s))
        return lm_fail(e, LM_USAGE, "think", LM_NO_OFFSET, "\"%.60s\" does not support thinking", s->name);
    t->body.effort = word;
    t->thinking = json_is_false(think) ? LM_THINKING_OFF : LM_THINKING_ON;
    return LM_OK;
}

/* ---- tool calls of earlier messages ---- */

/* Read the tool calls of a message. ollama's calls have no ids; ids of nine letters and digits work with
 * every template. */
static lm_status read_calls(const json_t *given, size_t i, size_t *n, json_t *calls, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_LIMIT_ID_CALLS, json_array_size(given), e));
    for (size_t k = 0; k < json_array_size(given); k++) {
        const json_t *f = json_object_get(json_array_get(given, k), "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        char id[32];

        if (!name)
            return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu: tool call %zu requires a name", i, k);
        snprintf(id, sizeof id, "call%05zu", (*n)++ % 100000);
        json_array_append_new(calls, lm_dialogue_call(id, name, json_object_get(f, "arguments")));
    }
    return LM_OK;
}

static bool is_of(const json_t *call, const char *name)
{
    const char *of = json_string_value(json_object_get(json_object_get(call, "function"), "name"));

    return of && strcmp(of, name) == 0;
}

/* The state after the messages read so far. */
typedef struct reading {
    json_t *messages;
    const json_t *calls;             /* of the last message with tool calls */
    size_t  n, place;                /* calls so far; messages since that one */
} reading;

/* Return the call that a tool message answers: the last calls' element at its place if the name fits or is
 * NULL, otherwise the first one of this name; NULL: none. */
static const json_t *call_of(const reading *r, const char *name)
{
    const json_t *call = json_array_get(r->calls, r->place);

    if (!name || is_of(call, name))
        return call;
    for (size_t k = 0; k < json_array_size(r->calls); k++)
        if (is_of(json_array_get(r->calls, k), name))
            return json_array_get(r->calls, k);
    return NULL;
}

static lm_status read_message(reading *r, json_t *m, size_t i, lm_error *e)
{
    const char *name = json_string_value(json_object_get(m, "tool_name")),
               *role = json_string_value(json_object_get(m, "role"));
    json_t *thinking = json_object_get(m, "thinking"), *images = json_object_get(m, "images");
    const json_t *call;
    json_t *o, *calls;
    lm_status status = LM_OK;

    if (!json_is_object(m))
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu must be an object with role and content", i);
    if (json_array_size(images) || json_string_length(images))
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu has images; only text is supported", i);
    o = json_copy(m);
    json_object_del(o, "images");
    json_object_del(o, "thinking");
    json_object_del(o, "tool_name");
    if (json_is_string(thinking) && json_string_length(thinking))
        json_object_set(o, "reasoning_content", thinking);
    if (json_array_size(json_object_get(m, "tool_calls"))) {
        calls = json_array();
        status = read_calls(json_object_get(m, "tool_calls"), i, &r->n, calls, e);
        json_object_set_new(o, "tool_calls", calls);
    }
    if (role && strcmp(role, "tool") == 0) {
        call = call_of(r, name);
        if (call)
            json_object_set(o, "tool_call_id", json_object_get(call, "id"));
        if (!name)
            name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));
        if (name)
            json_object_set_new(o, "name", json_string(name));
    }
    json_array_append_new(r->messages, o);
    r->place++;
    if (json_array_size(json_object_get(o, "tool_calls"))) {
        r->calls = json_object_get(o, "tool_calls");
        r->place = 0;
    }
    return status;
}

lm_status lm_ollama_messages(const json_t *messages, json_t **out, lm_error *e)
{
    reading r = { .messages = json_array() };
    lm_status status = LM_OK;

    for (size_t i = 0; status == LM_OK && i < json_array_size(messages); i++)
        status = read_message(&r, json_array_get(messages, i), i, e);
    if (status == LM_OK)
        *out = r.messages;
    else
        json_decref(r.messages);
    return status;
}
