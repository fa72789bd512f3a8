/* anthropic_input.c - messages with blocks become messages of OpenAI's chat. Read from lm_anthropic_messages
 * upwards. Threads: a worker. */
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/dialects/anthropic.h"

typedef struct reading {
    json_t  *messages, *warnings;    /* so far */
    json_t  *names;                  /* of called tools, by call id: templates name them with results */
    lm_text  system;
    size_t   i;                      /* index of the current message */
    lm_error *e;
} reading;

static void add_line(lm_text *out, const char *text, size_t n)
{
    if (out->size)
        lm_text_add_char(out, '\n');
    lm_text_add(out, text, n);
}

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));

    return type ? type : "";
}

static lm_status unreadable(const reading *r, size_t k, const json_t *block)
{
    const char *type = type_of(block);

    if (!*type || strcmp(type, "text") == 0 || strcmp(type, "thinking") == 0)
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu: content block %zu must be an object with a type and a string that has "
                       "the text",
                       r->i, k);
    return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                   "message %zu: content block %zu has the type \"%.40s\"; only text is supported", r->i, k,
                   type);
}

/* ---- system messages ---- */

/* Add a system text, except the block that names a client's billing: it differs between requests, so that no
 * prefix would be found in the cache. */
static lm_status add_system(reading *r, const json_t *system, const char *field)
{
    if (json_is_string(system))
        add_line(&r->system, json_string_value(system), json_string_length(system));
    else if (!json_is_array(system))
        return lm_fail(r->e, LM_USAGE, field, LM_NO_OFFSET, "expected a string or an array of text blocks");
    for (size_t i = 0; i < json_array_size(system); i++) {
        const json_t *text = json_object_get(json_array_get(system, i), "text");

        if (!json_is_string(text))
            return lm_fail(r->e, LM_USAGE, field, LM_NO_OFFSET, "block %zu must be text", i);
        if (strncmp(json_string_value(text), "x-anthropic-billing-header:", 27) != 0)
            add_line(&r->system, json_string_value(text), json_string_length(text));
    }
    return LM_OK;
}

/* ---- tool results ---- */

static lm_status add_result(reading *r, const json_t *block, size_t k)
{
    const char *id = json_string_value(json_object_get(block, "tool_use_id"));
    const char *name = id ? json_string_value(json_object_get(r->names, id)) : NULL;
    const json_t *content = json_object_get(block, "content");
    lm_text text = { 0 };

    if (!id)
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu: content block %zu has no tool_use_id", r->i, k);
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu: the content of block %zu must be a string or an array of text blocks",
                       r->i, k);
    if (json_is_string(content))
        lm_text_add(&text, json_string_value(content), json_string_length(content));
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *one = json_object_get(part, "text");
        if (!json_is_string(one)) {
            lm_text_free(&text);
            return unreadable(r, k, part);
        }
        add_line(&text, json_string_value(one), json_string_length(one));
    }
    if (json_is_true(json_object_get(block, "is_error")))
        lm_field_warn(r->warnings,
                      "messages: message %zu: is_error has no effect: the content of block %zu must describe "
                      "the error",
                      r->i, k);
    json_array_append_new(r->messages,
                          json_pack("{s:s, s:s, s:s*, s:s%}", "role", "tool", "tool_call_id", id, "name",
                                    name, "content", text.data ? text.data : "", text.size));
    lm_text_free(&text);
    return LM_OK;
}

/* ---- messages ---- */

/* Add tool results, then the text, whatever their order: templates expect results directly after the
 * calls. */
static lm_status add_user(reading *r, const json_t *content)
{
    lm_text text = { 0 };
    lm_status status = LM_OK;
    bool other = false;

    for (size_t k = 0; status == LM_OK && k < json_array_size(content); k++) {
        const json_t *block = json_array_get(content, k), *one = json_object_get(block, "text");

        if (strcmp(type_of(block), "tool_result") == 0)
            status = add_result(r, block, k);
        else if (strcmp(type_of(block), "text") || !json_is_string(one))
            status = unreadable(r, k, block);
        else
            add_line(&text, json_string_value(one), json_string_length(one));
        other |= strcmp(type_of(block), "tool_result") != 0;
    }
    if (status == LM_OK && (other || !json_array_size(content)))
        json_array_append_new(r->messages, json_pack("{s:s, s:s%}", "role", "user", "content",
                                                     text.data ? text.data : "", text.size));
    lm_text_free(&text);
    return status;
}

static lm_status add_call(reading *r, const json_t *block, size_t k, json_t *calls)
{
    const char *id = json_string_value(json_object_get(block, "id")),
               *name = json_string_value(json_object_get(block, "name"));

    if (!id || !name)
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu: content block %zu requires an id and a name", r->i, k);
    json_array_append_new(calls, lm_dialogue_call(id, name, json_object_get(block, "input")));
    json_object_set(r->names, id, json_object_get(block, "name"));
    return LM_OK;
}

static lm_status add_assistant(reading *r, const json_t *content)
{
    lm_text text = { 0 }, thinking = { 0 };
    json_t *calls = json_array(), *m;
    lm_status status = LM_OK;

    for (size_t k = 0; status == LM_OK && k < json_array_size(content); k++) {
        const json_t *block = json_array_get(content, k), *one = json_object_get(block, "text");
        const json_t *thought = json_object_get(block, "thinking");
        const char *type = type_of(block);

        if (strcmp(type, "tool_use") == 0)
            status = add_call(r, block, k, calls);
        else if (strcmp(type, "thinking") == 0 && json_is_string(thought))
            add_line(&thinking, json_string_value(thought), json_string_length(thought));
        else if (strcmp(type, "redacted_thinking") == 0)
            lm_field_warn(r->warnings, "messages: message %zu: redacted_thinking is left out", r->i);
        else if (strcmp(type, "text") || !json_is_string(one))
            status = unreadable(r, k, block);
        else
            add_line(&text, json_string_value(one), json_string_length(one));
    }
    if (status == LM_OK) {
        m = json_pack("{s:s, s:s%}", "role", "assistant", "content", text.data ? text.data : "", text.size);
        if (thinking.size)
            json_object_set_new(m, "reasoning_content", json_stringn(thinking.data, thinking.size));
        if (json_array_size(calls))
            json_object_set(m, "tool_calls", calls);
        json_array_append_new(r->messages, m);
    }
    lm_text_free(&text);
    lm_text_free(&thinking);
    json_decref(calls);
    return status;
}

static lm_status add_message(reading *r, json_t *m)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *content = json_object_get(m, "content");

    if (!role || (strcmp(role, "user") && strcmp(role, "assistant") && strcmp(role, "system")))
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu has the unknown role \"%.40s\": expected user, assistant or system", r->i,
                       role ? role : "");
    if (strcmp(role, "system") == 0)
        return add_system(r, content, "messages");
    if (json_is_string(content))
        return json_array_append(r->messages, m) == 0 ? LM_OK : lm_fail_memory(r->e, "messages", 0);
    if (!json_is_array(content))
        return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "the content of message %zu must be a string or an array of blocks", r->i);
    return strcmp(role, "user") == 0 ? add_user(r, content) : add_assistant(r, content);
}

lm_status lm_anthropic_messages(const json_t *system, const json_t *messages, json_t *warnings, json_t **out,
                                lm_error *e)
{
    reading r = { .messages = json_array(), .names = json_object(), .warnings = warnings, .e = e };
    lm_status status = system ? add_system(&r, system, "system") : LM_OK;

    if (status == LM_OK && !json_array_size(messages))
        status = lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                         "'messages' is empty; at least one message is required");
    for (r.i = 0; status == LM_OK && r.i < json_array_size(messages); r.i++)
        status = add_message(&r, json_array_get(messages, r.i));
    if (status == LM_OK && r.system.size)
        json_array_insert_new(r.messages, 0,
                              json_pack("{s:s, s:s%}", "role", "system", "content", r.system.data,
                                        r.system.size));
    if (status == LM_OK && r.system.failed)
        status = lm_fail_memory(e, "the system message", r.system.size);
    lm_text_free(&r.system);
    json_decref(r.names);
    if (status == LM_OK)
        *out = r.messages;
    else
        json_decref(r.messages);
    return status;
}
