/* response_input.c - items of /v1/responses become messages of OpenAI's chat. Read from lm_response_messages
 * upwards. Threads: a worker. */
#include "server/ask/dialogue.h"
#include "server/dialects/responses.h"
#include "server/front/memory.h"

#include <string.h>

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word))
        list++;
    return *list;
}

/* Append the text of a message: a string, or parts that contain text. */
static lm_status content_text(const json_t *content, size_t item, lm_text *out, lm_error *e)
{
    static const char *const texts[] = { "input_text", "output_text", "text", "refusal", NULL };

    if (json_is_string(content))
        lm_text_add(out, json_string_value(content), json_string_length(content));
    else if (!json_is_array(content))
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET,
                       "the content of item %zu must be a string or an array of parts", item);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, type && strcmp(type, "refusal") == 0 ? "refusal" : "text");

        if (!type || !is_one_of(type, texts) || !json_is_string(text))
            return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET,
                           "item %zu has a content part of the type \"%.40s\"; only text is supported", item,
                           type ? type : "unknown");
        if (i)
            lm_text_add_char(out, '\n');
        lm_text_add(out, json_string_value(text), json_string_length(text));
    }
    return out->failed ? lm_fail_memory(e, "a message", out->size) : LM_OK;
}

/* Return the assistant message that an item belongs to: the last message, unless it has the member
 * `closed_by` already, or a new one. So successive items of an assistant's turn (reasoning, text, tool calls)
 * become one message. */
static json_t *assistant(json_t *messages, const char *closed_by)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));

    if (role && strcmp(role, "assistant") == 0 && !json_object_get(last, closed_by))
        return last;
    last = json_pack("{s:s}", "role", "assistant");
    json_array_append_new(messages, last);
    return last;
}

static lm_status add_message(const json_t *item, size_t i, lm_text *system, json_t *messages, lm_error *e)
{
    static const char *const leading[] = { "system", "developer", NULL };
    static const char *const others[] = { "user", "assistant", NULL };
    const char *role = json_string_value(json_object_get(item, "role"));
    lm_text text = { 0 };
    lm_status status;

    if (!role || (!is_one_of(role, leading) && !is_one_of(role, others)))
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET, "item %zu has the unknown role \"%.40s\"", i,
                       role ? role : "");
    status = content_text(json_object_get(item, "content"), i, &text, e);
    if (status == LM_OK && is_one_of(role, leading)) {
        if (system->size && text.size)
            lm_text_add_str(system, "\n\n");
        lm_text_add(system, text.data, text.size);
    } else if (status == LM_OK && strcmp(role, "assistant") == 0) {
        json_t *m = assistant(messages, "content");
        if (json_object_get(m, "tool_calls"))            /* text after tool calls is a separate message */
            json_array_append_new(messages, m = json_pack("{s:s}", "role", role));
        json_object_set_new(m, "content", json_stringn(text.data ? text.data : "", text.size));
    } else if (status == LM_OK) {
        json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", role, "content",
                                                  text.data ? text.data : "", text.size));
    }
    lm_text_free(&text);
    return status;
}

/* Add the reasoning of an earlier response, which templates may include in the prompt. Encrypted or
 * summarized reasoning is skipped with a warning. */
static void add_reasoning(const json_t *item, size_t i, json_t *messages, json_t *warnings)
{
    const json_t *content = json_object_get(item, "content");
    lm_text text = { 0 };

    for (size_t k = 0; k < json_array_size(content); k++) {
        const json_t *part = json_object_get(json_array_get(content, k), "text");
        lm_text_add(&text, json_is_string(part) ? json_string_value(part) : "", json_string_length(part));
    }
    if (text.size)
        json_object_set_new(assistant(messages, "content"), "reasoning_content",
                            json_stringn(text.data, text.size));
    else
        lm_field_warn(warnings, "input: item %zu of type reasoning is left out", i);
    lm_text_free(&text);
}

/* Add a call of the function `name`; takes `arguments`, a string. */
static lm_status put_call(const char *id, const char *name, json_t *arguments, json_t *messages,
                          json_t *names, lm_error *e)
{
    json_t *m = assistant(messages, ""), *calls = json_object_get(m, "tool_calls");

    if (!calls)
        json_object_set_new(m, "tool_calls", calls = json_array());
    json_object_set_new(names, id, json_string(name));
    return json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function",
                                                  "function", "name", name, "arguments", arguments)) == 0
               ? LM_OK : lm_fail_memory(e, "a tool call", 0);
}

/* Return the arguments of a call of any type as a JSON text: those of a function as they are, the input of a
 * custom tool as its one argument, the action of a shell without its type. NULL: there are none. */
static json_t *arguments_of(const json_t *item, const char *type)
{
    json_t *o, *text = NULL;
    char *made;

    if (strcmp(type, "function_call") == 0)
        return json_is_string(json_object_get(item, "arguments"))
                   ? json_incref(json_object_get(item, "arguments")) : NULL;
    if (strcmp(type, "local_shell_call") == 0)
        o = json_copy(json_object_get(item, "action"));
    else
        o = json_is_string(json_object_get(item, "input"))
                ? json_pack("{s:O}", "input", json_object_get(item, "input")) : NULL;
    if (json_is_object(o)) {
        json_object_del(o, "type");
        made = json_dumps(o, JSON_COMPACT);
        text = made ? json_string(made) : NULL;
        lm_heap_free(made);
    }
    json_decref(o);
    return text;
}

static lm_status add_call(const json_t *item, size_t i, const char *type, json_t *messages, json_t *names,
                          lm_error *e)
{
    bool shell = strcmp(type, "local_shell_call") == 0;
    const char *id = json_string_value(json_object_get(item, "call_id"));
    const char *name = shell ? "local_shell" : json_string_value(json_object_get(item, "name"));
    json_t *arguments = arguments_of(item, type);
    lm_text whole = { 0 };
    lm_status status;

    if (!id && shell)
        id = json_string_value(json_object_get(item, "id"));
    if (!id || !name || !arguments) {
        json_decref(arguments);
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET, "item %zu: a %s requires %s", i, type,
                       shell ? "the string call_id and the object action"
                       : strcmp(type, "function_call") ? "the strings call_id, name and input"
                                                       : "the strings call_id, name and arguments");
    }
    lm_response_tool_name(json_string_value(json_object_get(item, "namespace")), name, &whole);
    status = put_call(id, whole.data, arguments, messages, names, e);
    lm_text_free(&whole);
    return status;
}

static lm_status add_output(const json_t *item, size_t i, json_t *messages, const json_t *names, lm_error *e)
{
    const json_t *given = json_object_get(item, "call_id");
    const char *id = json_string_value(given ? given : json_object_get(item, "id"));
    const char *name = id ? json_string_value(json_object_get(names, id)) : NULL;
    lm_text text = { 0 };
    lm_status status;

    if (!name)
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET,
                       "item %zu has the call_id \"%.60s\", which no call before it has", i,
                       id ? id : "");
    status = content_text(json_object_get(item, "output"), i, &text, e);
    if (status == LM_OK)
        json_array_append_new(messages,
                              json_pack("{s:s, s:s, s:s, s:s%}", "role", "tool", "tool_call_id", id, "name",
                                        name, "content", text.data ? text.data : "", text.size));
    lm_text_free(&text);
    return status;
}

/* Add an item. `names`: names of called tools, by call id. */
static lm_status add_item(const json_t *item, size_t i, lm_text *system, json_t *messages, json_t *names,
                          json_t *warnings, lm_error *e)
{
    static const char *const calls[] = { "function_call", "custom_tool_call", "local_shell_call", NULL };
    static const char *const outputs[] = { "function_call_output", "custom_tool_call_output",
                                           "local_shell_call_output", NULL };
    const char *type = json_string_value(json_object_get(item, "type"));

    if (!json_is_object(item))
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET, "item %zu must be an object", i);
    if (!type || strcmp(type, "message") == 0)
        return add_message(item, i, system, messages, e);
    if (is_one_of(type, calls))
        return add_call(item, i, type, messages, names, e);
    if (is_one_of(type, outputs))
        return add_output(item, i, messages, names, e);
    if (strcmp(type, "web_search_call") == 0) {          /* what was found is in the message that follows */
        lm_field_warn(warnings, "input: item %zu of type web_search_call is left out", i);
        return LM_OK;
    }
    if (strcmp(type, "reasoning"))
        return lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET, "item %zu of type \"%.40s\" is not supported", i,
                       type);
    add_reasoning(item, i, messages, warnings);
    return LM_OK;
}

lm_status lm_response_messages(const char *instructions, json_t *input, json_t *warnings, json_t **out,
                               lm_error *e)
{
    json_t *messages = json_array(), *names = json_object();
    lm_text system = { 0 };
    lm_status status = LM_OK;

    if (instructions)
        lm_text_add_str(&system, instructions);
    if (json_is_string(input))
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    else if (!json_is_array(input) || !json_array_size(input))
        status = lm_fail(e, LM_USAGE, "input", LM_NO_OFFSET,
                         "'input' must be a string or a non-empty array of items");
    for (size_t i = 0; status == LM_OK && i < json_array_size(input); i++)
        status = add_item(json_array_get(input, i), i, &system, messages, names, warnings, e);
    if (status == LM_OK && system.size)
        json_array_insert_new(messages, 0,
                              json_pack("{s:s, s:s%}", "role", "system", "content", system.data,
                                        system.size));
    if (status == LM_OK && system.failed)
        status = lm_fail_memory(e, "the instructions", system.size);
    lm_text_free(&system);
    json_decref(names);
    if (status == LM_OK)
        *out = messages;
    else
        json_decref(messages);
    return status;
}
