/* own_messages.c - own_messages.h. Without this, such a template would leave out calls and their results
 * without a word. */
#include "text/answer/own_messages.h"

#include <string.h>

#include "base/error.h"
#include "base/json_exact.h"
#include "base/jsontext.h"

lm_own_messages lm_own_messages_of(const char *source)
{
    if (strstr(source, "tool_calls"))
        return LM_OWN_NONE;
    if (strstr(source, "metadata") && strstr(source, "observation"))
        return LM_OWN_METADATA;
    return strstr(source, "please directly output an empty list") ? LM_OWN_LIST : LM_OWN_NONE;
}

/* Append a value as JSON, a string as it is. */
static lm_status add_value(const json_t *value, const lm_text *wide, lm_text *out, lm_error *e)
{
    lm_text printed = { 0 };
    lm_status status = LM_OK;

    if (json_is_string(value))
        lm_text_add(out, json_string_value(value), json_string_length(value));
    else if (lm_json_print(value, JSON_ENCODE_ANY, &printed))
        status = lm_text_add_exact_json(out, printed.data, printed.size, wide, e);
    lm_text_free(&printed);
    return status;
}

/* Add a message for each call: {"role": "assistant", "metadata": NAME, "content": ARGUMENTS}. */
static lm_status add_metadata(const json_t *calls, const lm_text *wide, json_t *list, lm_error *e)
{
    const json_t *call;
    lm_status status = LM_OK;
    size_t i;

    json_array_foreach(calls, i, call) {
        const json_t *f = json_object_get(call, "function");
        lm_text text = { 0 };
        if (status == LM_OK)
            status = add_value(json_object_get(f, "arguments"), wide, &text, e);
        json_array_append_new(list, json_pack("{s:s, s:O*, s:s%}", "role", "assistant", "metadata",
                                              json_object_get(f, "name"), "content",
                                              text.data ? text.data : "", text.size));
        lm_text_free(&text);
    }
    return status;
}

/* Add a message whose content is [{"name": …, "arguments": …}, …]. */
static lm_status add_list(const json_t *calls, const lm_text *wide, json_t *list, lm_error *e)
{
    json_t *content = json_array(), *call;
    lm_text text = { 0 };
    size_t i;

    json_array_foreach(calls, i, call) {
        json_t *f = json_object_get(call, "function");
        json_array_append_new(content, json_pack("{s:O*, s:O*}", "name", json_object_get(f, "name"),
                                                 "arguments", json_object_get(f, "arguments")));
    }
    lm_status status = add_value(content, wide, &text, e);
    json_array_append_new(list, json_pack("{s:s, s:s%}", "role", "assistant", "content",
                                          text.data ? text.data : "", text.size));
    json_decref(content);
    lm_text_free(&text);
    return status;
}

static lm_status add_message(lm_own_messages own, json_t *m, const lm_text *wide, json_t *list, lm_error *e)
{
    const json_t *calls = json_object_get(m, "tool_calls");
    const char *role = json_string_value(json_object_get(m, "role"));

    if (own == LM_OWN_METADATA && role && strcmp(role, "tool") == 0)
        json_object_set_new(m, "role", json_string("observation"));
    if (!json_array_size(calls)) {
        json_array_append(list, m);
        return LM_OK;
    }
    if (json_string_length(json_object_get(m, "content")))
        json_array_append_new(list, json_pack("{s:s, s:O}", "role", "assistant", "content",
                                              json_object_get(m, "content")));
    return own == LM_OWN_METADATA ? add_metadata(calls, wide, list, e) : add_list(calls, wide, list, e);
}

lm_status lm_own_messages_set(lm_own_messages own, const char *json, size_t size, json_t *context,
                              lm_error *e)
{
    json_t *messages = json_object_get(context, "messages"), *m, *list = json_array();
    lm_text wide = { 0 };
    lm_status status = LM_OK;
    size_t i;

    lm_text_add_wide_numbers(&wide, json, size);
    json_array_foreach(messages, i, m)
        if (status == LM_OK)
            status = add_message(own, m, &wide, list, e);
    if (json_is_array(messages))
        json_object_set(context, "messages", list);
    json_decref(list);
    lm_text_free(&wide);
    return status;
}
