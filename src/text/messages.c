/* messages.c - normalise the messages of a conversation for chat templates (lamina/text.h). */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/json_exact.h"
#include "base/jsontext.h"
#include "lamina/text.h"

typedef struct reader {
    lm_text *warnings;               /* NULL: no warnings are collected */
    lm_text  wide;                   /* numbers that JSON parsers cannot represent, as they were written */
} reader;

enum { MAX_BACKWARDS = 16 };         /* maximum number of searches from the start of the prompt */

/* ---- reading ---- */

static lm_status fail(size_t i, const char *what, lm_error *e)
{
    return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu %s", i, what);
}

/* Add a warning of one line, whatever characters the name contains. */
static void warn(lm_text *warnings, size_t i, const char *name)
{
    char escaped[129];

    lm_escape(escaped, sizeof escaped, name);
    if (warnings)
        lm_text_printf(
            warnings, "messages: the arguments of %s in message %zu are not a JSON object and are left out\n",
            escaped, i);
}

static bool is_text(const char *type)
{
    return type &&
           (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0);
}

static lm_status join_parts(const json_t *parts, size_t i, json_t *message, lm_error *e)
{
    lm_text out = { 0 };
    const json_t *part;
    size_t k;

    json_array_foreach(parts, k, part) {
        const json_t *type = json_object_get(part, "type"), *text;
        const char *name = type && !json_is_null(type) ? json_string_value(type) : "text";
        bool refusal = name && strcmp(name, "refusal") == 0;
        text = json_object_get(part, refusal ? name : "text");
        if (!json_is_string(text) || !(refusal || is_text(name))) {
            lm_text_free(&out);
            if (is_text(name) || refusal || !name)
                return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                               "message %zu: content part %zu must be an object with a type and a string "
                               "that has the text",
                               i, k);
            return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu has a content part of type \"%.40s\"; only text is supported", i,
                           name);
        }
        if (k)
            lm_text_add_str(&out, "\n");
        lm_text_add(&out, json_string_value(text), json_string_length(text));
    }
    if (!out.failed)
        json_object_set_new(message, "content", lm_json_text(out.data ? out.data : "", out.size));
    lm_text_free(&out);
    return out.failed ? lm_fail_memory(e, "a message", out.size) : LM_OK;
}

/* Return the arguments of an earlier call as templates index them: always an object. Anything else
 * becomes an empty object, with a warning unless it is empty. */
static json_t *read_arguments(json_t *given, const char *name, size_t i, reader *r)
{
    const char *text = json_string_value(given);
    json_t *object = text ? lm_json_read(text, json_string_length(given), 0, NULL) : json_incref(given);

    if (json_is_object(object)) {
        if (text)
            lm_text_add_wide_numbers(&r->wide, text, json_string_length(given));
        return object;
    }
    json_decref(object);
    if (text ? text[strspn(text, " \t\r\n")] != 0 : given && !json_is_null(given))
        warn(r->warnings, i, name);
    return json_object();
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* Make OpenAI's older function_call the only element of tool_calls, which templates use. */
static lm_status read_older_call(json_t *m, size_t i, lm_error *e)
{
    json_t *call = json_object_get(m, "function_call");

    if (is_given(call) && (!json_is_object(call) || json_array_size(json_object_get(m, "tool_calls"))))
        return fail(i, "must have either tool_calls or a function_call that is an object", e);
    if (json_is_object(call))
        json_object_set_new(m, "tool_calls",
                            json_pack("[{s:s, s:s, s:O}]", "id", "call00000", "type", "function", "function",
                                      call));
    json_object_del(m, "function_call");
    return LM_OK;
}

/* Normalise earlier tool calls. */
static lm_status read_calls(json_t *m, size_t i, reader *r, lm_error *e)
{
    json_t *calls, *call;
    size_t k;

    LM_TRY(read_older_call(m, i, e));
    calls = json_object_get(m, "tool_calls");
    if (is_given(calls) && !json_is_array(calls))
        return fail(i, "has tool_calls that are not an array", e);
    json_array_foreach(calls, k, call) {
        json_t *f = json_object_get(call, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (!name)
            return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu: tool call %zu requires a function with a name", i, k);
        json_object_set_new(f, "arguments", read_arguments(json_object_get(f, "arguments"), name, i, r));
    }
    if (!k)
        json_object_del(m, "tool_calls");
    return LM_OK;
}

/* Copy what templates know by one name only: "reasoning" to "reasoning_content", and a refusal without
 * content to the content. */
static void read_names(json_t *m)
{
    if (!json_is_string(json_object_get(m, "reasoning_content")) &&
        json_is_string(json_object_get(m, "reasoning")))
        json_object_set(m, "reasoning_content", json_object_get(m, "reasoning"));
    if (!is_given(json_object_get(m, "content")) && json_is_string(json_object_get(m, "refusal")))
        json_object_set(m, "content", json_object_get(m, "refusal"));
}

/* Map the role "developer" to "system" and "function" to "tool"; reject unknown roles. */
static lm_status read_role(json_t *m, size_t i, lm_error *e)
{
    static const char *const roles[][2] = { { "system", NULL }, { "developer", "system" },
                                            { "user", NULL },   { "assistant", NULL },
                                            { "tool", NULL },   { "function", "tool" } };
    const char *role = json_string_value(json_object_get(m, "role"));

    if (!role)
        return fail(i, "is not an object with a role and content", e);
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (strcmp(roles[k][0], role) == 0) {
            if (roles[k][1])
                json_object_set_new(m, "role", json_string(roles[k][1]));
            return LM_OK;
        }
    return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                   "message %zu has the unknown role \"%.40s\": expected system, developer, user, assistant, "
                   "tool or function",
                   i, role);
}

static lm_status read_message(json_t *m, size_t i, reader *r, lm_error *e)
{
    json_t *content;

    LM_TRY(read_role(m, i, e));
    LM_TRY(read_calls(m, i, r, e));
    read_names(m);
    content = json_object_get(m, "content");
    if (!content || json_is_null(content))
        json_object_set_new(m, "content", json_string(""));
    else if (json_is_array(content))
        return join_parts(content, i, m, e);
    else if (!json_is_string(content))
        return fail(i, "has a content that is neither a string nor an array of parts", e);
    return LM_OK;
}

static lm_status read_list(const char *json, size_t size, json_t **out, lm_error *e)
{
    json_error_t why;

    *out = lm_json_read(json, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!*out)
        return lm_fail(e, LM_USAGE, "messages", why.position, "the list is not JSON: %s", why.text);
    if (json_is_array(*out))
        return LM_OK;
    json_decref(*out);
    *out = NULL;
    return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "expected an array of messages");
}

lm_status lm_messages_read(const char *json, size_t size, lm_text *warnings, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, (json || !size) && out);
    json_t *list, *m;
    reader r = { .warnings = warnings };
    lm_text printed = { 0 };
    lm_status status = read_list(json ? json : "", size, &list, e);
    size_t i;

    lm_text_add_wide_numbers(&r.wide, json, size);
    json_array_foreach(list, i, m)
        if (status == LM_OK)
            status = read_message(m, i, &r, e);
    if (status == LM_OK && (!lm_json_print(list, JSON_COMPACT, &printed) || r.wide.failed))
        status = lm_fail_memory(e, "the conversation", size);
    if (status == LM_OK)
        status = lm_text_add_exact_json(out, printed.data, printed.size, &r.wide, e);
    json_decref(list);
    lm_text_free(&printed);
    lm_text_free(&r.wide);
    return status;
}

/* ---- omitted messages ---- */

/* Find the longest run of letters and digits at the start of a text: templates quote and trim text, but do
 * not change words. */
static size_t longest_word(const char *text, const char **word)
{
    size_t best = 0;

    for (size_t i = 0, n; text[i] && i < 400; i += n ? n : 1) {
        for (n = 0; isalnum((unsigned char)text[i + n]) && n < 64; n++)
            ;
        if (n > best) {
            best  = n;
            *word = text + i;
        }
    }
    return best;
}

/* Search after the last match, because messages are usually rendered in order; otherwise search the whole
 * prompt, at most MAX_BACKWARDS times, which templates that move messages may need. So the prompt is not
 * scanned once per message. */
static bool find_in_order(const char *rendered, const char *part, size_t *from, unsigned *backwards)
{
    const char *at = strstr(rendered + *from, part);

    if (!at && ++*backwards <= MAX_BACKWARDS)
        at = strstr(rendered, part);
    if (at)
        *from = (size_t)(at - rendered);
    return at;
}

lm_status lm_messages_rendered(const char *json, size_t size, const lm_text *rendered, lm_error *e)
{
    LM_REQUIRE(e, (json || !size) && rendered);
    unsigned backwards = 0;
    size_t from = 0, i, n;
    json_t *list, *m;
    lm_status status = read_list(json ? json : "", size, &list, e);

    json_array_foreach(list, i, m) {
        const char *role = json_string_value(json_object_get(m, "role")),
                   *text = json_string_value(json_object_get(m, "content")), *word;
        char part[65] = "";
        if (!role || !text || (strcmp(role, "system") && strcmp(role, "tool")) ||
            !(n = longest_word(text, &word)))
            continue;
        memcpy(part, word, n);
        if (status == LM_OK && !find_in_order(rendered->data ? rendered->data : "", part, &from, &backwards))
            status = lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                             "message %zu is not in the prompt: the chat template of this model leaves out "
                             "messages of role %s",
                             i, role);
    }
    json_decref(list);
    return status;
}
