/* openai.c - openai.h: documents, chunks, and the end of a response; custom tools. Threads: the front; tools
 * are made by a worker. */
#include "server/dialects/openai.h"

#include <string.h>

#include "lamina/grammar.h"

/* system_fingerprint begins with a b, as llama-server's does: its clients check this. */
json_t *lm_openai_document(const lm_turn *t, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s+, s:o}", "id", t->id, "object", object, "created",
                     (json_int_t)t->created, "model", t->service->name, "system_fingerprint", "b-",
                     t->fingerprint, "choices", choices);
}

void lm_openai_finish(lm_turn *t, const char *object, json_t *choices, bool wanted, json_t *usage)
{
    json_t *o = lm_openai_document(t, object, choices);

    if (!t->stream || wanted) {
        json_object_set(o, "usage", usage);
        json_object_set_new(o, "timings", lm_turn_timings(t->choices));
    }
    json_decref(usage);
    lm_turn_extras(t, o);
    if (!t->stream) {
        lm_turn_add(t, o);
        return;
    }
    if (wanted || t->explain_cache || t->contributions)
        lm_turn_send(t, NULL, o);
    else
        json_decref(o);
    lm_text_add_str(t->out, "data: [DONE]\n\n");
}

void lm_openai_trace(lm_turn *t, json_t *chunk, json_t *trace)
{
    json_object_set_new(chunk, "trace", trace);
    lm_turn_send(t, NULL, chunk);
}

json_t *lm_openai_usage(const lm_turn_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt, "completion_tokens",
                     (json_int_t)u->written, "total_tokens", (json_int_t)(u->prompt + u->written),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)u->cached);
}

lm_status lm_openai_wants_usage(lm_call *c, json_t *stream_options, bool *wanted, lm_error *e)
{
    const json_t *value = json_object_get(stream_options, "include_usage");

    lm_field_warn_members(c->warnings, "stream_options", stream_options, "include_usage");
    *wanted = json_is_true(value);
    return !value || json_is_boolean(value) || json_is_null(value)
               ? LM_OK
               : lm_fail(e, LM_USAGE, "stream_options", LM_NO_OFFSET, "include_usage must be true or false");
}

/* ---- custom tools ---- */

static const char *member(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

/* Append the regular expression of a grammar. */
static lm_status grammar_pattern(const json_t *grammar, lm_text *out, lm_error *e)
{
    const char *syntax = member(grammar, "syntax"), *definition = member(grammar, "definition");

    lm_text_add_str(out, "^(?:");
    if (strcmp(syntax, "lark") == 0)
        LM_TRY(lm_grammar_lark_regex(definition, out, e));
    else if (strcmp(syntax, "regex") == 0)
        lm_text_add_str(out, definition);
    else
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the syntax \"%.20s\" is not lark or regex", syntax);
    lm_text_add_str(out, ")$");
    return LM_OK;
}

/* Return the schema of arguments with one string, `input`. `pattern` NULL: any string. */
static json_t *input_schema(const char *pattern)
{
    json_t *o = json_pack("{s:s, s:{s:{s:s}}, s:[s], s:b}", "type", "object", "properties", "input", "type",
                          "string", "required", "input", "additionalProperties", 0);

    if (pattern)
        json_object_set_new(json_object_get(json_object_get(o, "properties"), "input"), "pattern",
                            json_string(pattern));
    return o;
}

lm_status lm_openai_custom(const json_t *format, const json_t *grammar, const char *about, json_t **function,
                           json_t **enforced, lm_error *e)
{
    const char *type = member(format, "type");
    bool any = !format || json_is_null(format) || strcmp(type, "text") == 0;
    lm_text pattern = { 0 }, described = { 0 };
    lm_status status = LM_OK;

    if (!any && (strcmp(type, "grammar") || !*member(grammar, "definition")))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the format must have the type text, or grammar with a definition");
    lm_text_add_str(&described, about);
    if (!any) {
        lm_text_printf(&described, "\nThe input must match this %s grammar:\n%s", member(grammar, "syntax"),
                       member(grammar, "definition"));
        status = grammar_pattern(grammar, &pattern, e);
    }
    if (status == LM_OK) {
        *function = json_pack("{s:s, s:o, s:b}", "description", described.data ? described.data : "",
                              "parameters", input_schema(NULL), "strict", !any);
        *enforced = any ? NULL : input_schema(pattern.data);
    }
    lm_text_free(&pattern);
    lm_text_free(&described);
    return status == LM_OK || status == LM_NO_MEMORY ? status : LM_USAGE;
}

json_t *lm_openai_input(const char *arguments, size_t n)
{
    json_t *o = json_loadb(arguments, n, JSON_ALLOW_NUL, NULL);
    lm_text text = { 0 };

    for (size_t cut = 0; !o && cut < 12 && cut < n; cut++) {         /* 12: "\uD83D\uDE00" */
        lm_text_clear(&text);
        lm_text_add(&text, arguments, n - cut);
        lm_text_add_str(&text, "\"}");
        o = text.failed ? NULL : json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    }
    lm_text_free(&text);
    return o;
}

/* Return {name, …} of a custom tool, of a choice or a call of one; NULL: it is of another type. */
static const json_t *custom_of(const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *custom = json_object_get(o, "custom");

    return type && strcmp(type, "custom") == 0 && json_is_object(custom) ? custom : NULL;
}

/* Append tool i to `list`, a custom one as a function. */
static lm_status add_tool(lm_turn *t, json_t *tool, size_t i, json_t *customs, json_t *list, lm_error *e)
{
    const json_t *custom = custom_of(tool), *format = json_object_get(custom, "format");
    json_t *f = NULL, *schema = NULL;
    lm_error why = { 0 };

    if (!custom)
        return json_array_append(list, tool) == 0 ? LM_OK : lm_fail_memory(e, "tools", 0);
    const char *name = member(custom, "name");
    lm_status status = lm_openai_custom(format, json_object_get(format, "grammar"),
                                        member(custom, "description"), &f, &schema, &why);
    if (status != LM_OK)
        return lm_fail(e, status, "tools", LM_NO_OFFSET, "tools[%zu] \"%.64s\": %s", i, name, why.message);
    json_object_set(f, "name", json_object_get(custom, "name"));
    json_object_set_new(customs, name, json_true());
    if (schema)
        json_object_set_new(t->body.enforced, name, schema);
    return json_array_append_new(list, json_pack("{s:s, s:o}", "type", "function", "function", f)) == 0
               ? LM_OK
               : lm_fail_memory(e, "tools", 0);
}

/* Return a choice of a custom tool as one of a function; other choices as they are. */
static json_t *as_function(json_t *choice)
{
    const json_t *custom = custom_of(choice);

    return custom ? json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", member(custom, "name"))
                  : json_incref(choice);
}

/* Return the tool choice with functions instead of custom tools, also in allowed_tools. */
static json_t *read_choice(json_t *choice)
{
    const json_t *inner = json_object_get(choice, "allowed_tools");
    const json_t *list = json_object_get(inner, "tools");
    json_t *o, *tools;

    if (!json_is_array(list))
        return as_function(choice);
    o = json_deep_copy(choice);
    tools = json_array();
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(tools, as_function(json_array_get(list, i)));
    json_object_set_new(json_object_get(o, "allowed_tools"), "tools", tools);
    return o;
}

/* Return message i with calls of functions instead of custom tools. NULL: an error. */
static json_t *read_message(json_t *message, size_t i, lm_error *e)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    json_t *o = json_copy(message), *list = json_array();

    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *call = json_array_get(calls, k);
        const json_t *custom = custom_of(call), *input = json_object_get(custom, "input");
        if (custom && (!*member(custom, "name") || !json_is_string(input))) {
            lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                    "message %zu: call %zu, of a custom tool, must have a name and an input", i, k);
            json_decref(list);
            json_decref(o);
            return NULL;
        }
        call = json_copy(call);
        if (custom) {
            json_object_set_new(call, "function", json_pack("{s:s, s:{s:O}}", "name", member(custom, "name"),
                                                            "arguments", "input", input));
            json_object_set_new(call, "type", json_string("function"));
            json_object_del(call, "custom");
        }
        json_array_append_new(list, call ? call : json_null());
    }
    if (json_is_array(calls))
        json_object_set(o, "tool_calls", list);
    json_decref(list);
    return o;
}

static bool has_custom_call(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");

    for (size_t i = 0; i < json_array_size(calls); i++)
        if (custom_of(json_array_get(calls, i)))
            return true;
    return false;
}

lm_status lm_openai_customs(lm_turn *t, json_t **customs, lm_error *e)
{
    json_t *list = lm_turn_keep(t, json_array()), *messages = lm_turn_keep(t, json_array()), *one;
    size_t i;

    *customs = json_object();
    t->body.enforced = lm_turn_keep(t, json_object());
    if (!list || !messages || !*customs || !t->body.enforced)
        return lm_fail_memory(e, "tools", 0);
    json_array_foreach(t->body.tools, i, one)
        LM_TRY(add_tool(t, one, i, *customs, list, e));
    if (json_object_size(*customs)) {
        t->body.tools = list;
        t->body.tool_choice = lm_turn_keep(t, read_choice(t->body.tool_choice));
    }
    json_array_foreach(t->body.messages, i, one) {
        bool has = has_custom_call(one);
        if (has && !(one = read_message(one, i, e)))
            return e->code;
        if ((has ? json_array_append_new : json_array_append)(messages, one) != 0)
            return lm_fail_memory(e, "messages", 0);
    }
    t->body.messages = messages;
    return LM_OK;
}
