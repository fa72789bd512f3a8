#include "server/ask/dialogue.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/json_body.h"
#include "server/ask/request_limits.h"

/* ---- messages ---- */

static lm_status text_of_parts(const json_t *parts, lm_text *out, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *type = json_object_get(part, "type"), *text = json_object_get(part, "text");

        if (!json_is_string(text) || (type && strcmp(json_string_value(type), "text") && strcmp(json_string_value(type), "input_text") &&
                                      strcmp(json_string_value(type), "output_text")))
            return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "content part of type \"%.40s\": only text is read",
                           json_is_string(type) ? json_string_value(type) : "unknown");
        if (i)
            lm_text_add_str(out, "\n");
        lm_text_add(out, json_string_value(text), json_string_length(text));
    }
    return out->failed ? lm_fail_memory(e, "a message", out->size) : LM_OK;
}

/* Of an earlier call, as templates index them: an object, always. Others become an empty one, with a warning unless they are empty. */
static json_t *read_arguments(json_t *given, const char *name, size_t i, json_t *warnings)
{
    const char *text = json_string_value(given);
    json_t *object = text ? lm_json_body(text, json_string_length(given), 0, NULL, NULL) : json_incref(given);

    if (json_is_object(object))
        return object;
    json_decref(object);
    if (text ? text[strspn(text, " \t\r\n")] != 0 : given && !json_is_null(given))
        json_array_append_new(warnings, json_sprintf("messages: message %zu: the arguments of %.128s are no JSON object: left out", i,
                                                     name ? name : "a tool"));
    return json_object();
}

/* Earlier calls, and reasoning by the name that templates know. */
static void read_calls(json_t *m, size_t at, json_t *warnings)
{
    json_t *calls = json_object_get(m, "tool_calls"), *copy, *call;
    size_t i;

    if (!json_object_get(m, "reasoning_content") && json_is_string(json_object_get(m, "reasoning")))
        json_object_set(m, "reasoning_content", json_object_get(m, "reasoning"));
    if (!json_array_size(calls)) {
        json_object_del(m, "tool_calls");
        return;
    }
    copy = json_deep_copy(calls);
    json_array_foreach(copy, i, call) {
        json_t *f = json_object_get(call, "function"), *arguments = json_object_get(f, "arguments");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (json_is_object(f))
            json_object_set_new(f, "arguments", read_arguments(arguments, name, at, warnings));
    }
    json_object_set_new(m, "tool_calls", copy);
}

/* Role and content as templates know them: "developer" is "system", "function" is "tool", parts are one text. */
static lm_status read_message(json_t *m, size_t i, json_t *out, json_t *warnings, lm_error *e)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function", NULL };
    const char *role = json_string_value(json_object_get(m, "role"));
    json_t *content = json_object_get(m, "content"), *o;
    lm_text text = { 0 };
    size_t known = 0;

    if (!json_is_object(m) || !role)
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu: expected an object with role and content", i);
    while (roles[known] && strcmp(roles[known], role))
        known++;
    if (!roles[known])
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu: unknown role \"%.40s\"", i, role);
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu: content is a string or an array of parts", i);
    o = json_copy(m);
    read_calls(o, i, warnings);
    if (known == 1 || known == 5)
        json_object_set_new(o, "role", json_string(known == 1 ? "system" : "tool"));
    if (json_is_array(content)) {
        if (text_of_parts(content, &text, e) != LM_OK) {
            json_decref(o);
            lm_text_free(&text);
            return e->code;
        }
        json_object_set_new(o, "content", json_stringn(text.data ? text.data : "", text.size));
        lm_text_free(&text);
    } else if (!content || json_is_null(content)) {
        json_object_set_new(o, "content", json_string(""));
    }
    json_array_append_new(out, o);
    return LM_OK;
}

static lm_status read_messages(const json_t *messages, json_t *list, json_t *warnings, lm_error *e)
{
    lm_status status = LM_OK;

    if (!json_array_size(messages))
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "empty");
    LM_TRY(lm_limit_check(LM_MOST_MESSAGES, json_array_size(messages), e));
    for (size_t i = 0; status == LM_OK && i < json_array_size(messages); i++)
        status = read_message(json_array_get(messages, i), i, list, warnings, e);
    return status;
}

json_t *lm_dialogue_call(const char *id, const char *name, json_t *arguments)
{
    if (!json_is_object(arguments)) {
        json_decref(arguments);
        arguments = json_object();
    }
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name", name, "arguments", arguments);
}

/* ---- variables of the template ---- */

/* Does the template speak of a variable of this name? */
static bool mentions(const lm_service *s, const char *name)
{
    const char *at = s->template_source;
    size_t n = strlen(name);

    for (; at && n && (at = strstr(at, name)); at += n) {
        char before = at == s->template_source ? ' ' : at[-1], after = at[n];
        if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) && after != '_')
            return true;
    }
    return false;
}

/* Names that are the server's: a request says them elsewhere, or not at all. */
static lm_status read_kwargs(lm_call *c, json_t *given, json_t *context, lm_error *e)
{
    static const char *const ours[] = { "messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "now", NULL };
    const char *name;
    json_t *value;

    json_object_foreach(given, name, value) {
        for (size_t i = 0; ours[i]; i++)
            if (strcmp(ours[i], name) == 0)
                return lm_fail(e, LM_USAGE, "chat_template_kwargs", LM_NO_OFFSET, "%s is set by the server", name);
        if (!mentions(c->service, name))
            json_array_append_new(c->warnings, json_sprintf("chat_template_kwargs: the chat template of this model knows no %.60s", name));
        json_object_set(context, name, value);
    }
    return LM_OK;
}

static bool has_channels(const lm_service *s)
{
    const char *name = lm_answer_style_name(&s->style);

    return name && strcmp(name, "harmony") == 0;
}

static bool has_switch(const lm_service *s)
{
    static const char *const names[] = { "enable_thinking", "thinking", "thinking_budget", "reasoning_effort", NULL };

    for (size_t i = 0; names[i]; i++)
        if (mentions(s, names[i]))
            return true;
    return false;
}

/* A model that writes in channels always reasons: off is as little as it can. */
static const char *effort_of(const lm_service *s, const char *effort, lm_thinking thinking)
{
    if (!has_channels(s))
        return effort;
    if (thinking == LM_THINKING_OFF || (effort && strcmp(effort, "minimal") == 0))
        return "low";
    return effort && (strcmp(effort, "xhigh") == 0 || strcmp(effort, "max") == 0) ? "high" : effort;
}

static lm_status set_thinking(lm_call *c, const lm_dialogue *d, json_t *context, lm_error *e)
{
    static const char *const efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh", "max", NULL };
    lm_thinking thinking = d->thinking;
    const char *effort = d->effort;
    bool explicit;
    size_t i = 0;

    while (effort && efforts[i] && strcmp(efforts[i], effort))
        i++;
    if (effort && !efforts[i])
        return lm_fail(e, LM_USAGE, d->field, LM_NO_OFFSET,
                       "unknown value \"%.40s\": expected none, minimal, low, medium, high, xhigh or max", effort);
    if (thinking == LM_THINKING_DEFAULT && !effort && d->budget)
        thinking = c->service->o.thinking;               /* nobody is warned of the server's own default */
    explicit = d->thinking != LM_THINKING_DEFAULT || effort || !d->budget;
    if (d->budget == 0 || (effort && strcmp(effort, "none") == 0))
        thinking = LM_THINKING_OFF;
    else if (effort && thinking == LM_THINKING_DEFAULT)
        thinking = LM_THINKING_ON;
    effort = effort_of(c->service, effort, thinking);
    if (effort)
        json_object_set_new(context, "reasoning_effort", json_string(effort));
    if (thinking == LM_THINKING_DEFAULT)
        return LM_OK;
    if (explicit && !has_switch(c->service))
        json_array_append_new(c->warnings, json_sprintf("%s: the chat template of this model has no switch for reasoning", d->field));
    lm_reasoning_switch(context, thinking == LM_THINKING_ON);
    if (thinking == LM_THINKING_ON && d->budget > 0)
        json_object_set_new(context, "thinking_budget", json_integer((json_int_t)d->budget));
    return LM_OK;
}

/* ---- what the template left out ---- */

enum { MOST_BACKWARDS = 16 };        /* messages that stand before those that came before them */

/* The longest run of letters and digits at the beginning of a text: templates quote and trim, but do not change words. */
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

/* Behind what was found last, as messages come in their order; else anywhere, which templates that move messages may need a few times. So
 * the text is not read once for each message. */
static bool find_in_order(const lm_text *rendered, const char *part, size_t *from, unsigned *backwards)
{
    const char *all = rendered->data ? rendered->data : "", *at = strstr(all + *from, part);

    if (!at && ++*backwards <= MOST_BACKWARDS)
        at = strstr(all, part);
    if (at)
        *from = (size_t)(at - all);
    return at;
}

static lm_status check_expressed(const json_t *messages, const lm_text *rendered, lm_error *e)
{
    unsigned backwards = 0;
    size_t from = 0;

    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role")), *text = json_string_value(json_object_get(m, "content")), *word;
        char part[65] = "";
        size_t n;

        if (!role || !text || (strcmp(role, "system") && strcmp(role, "tool")) || !(n = longest_word(text, &word)))
            continue;
        memcpy(part, word, n);
        if (!find_in_order(rendered, part, &from, &backwards))
            return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu: the chat template of this model leaves out messages of role %s", i, role);
    }
    return LM_OK;
}

/* A tool that is described is in the prompt by its name; that the template describes any, a name that is in the prompt anyway does not
 * show. */
static lm_status check_described(const lm_service *s, const json_t *tools, const lm_text *rendered, lm_error *e)
{
    bool described = s->describes_tools;

    for (size_t i = 0; described && i < json_array_size(tools); i++) {
        const json_t *name = json_object_get(json_object_get(json_array_get(tools, i), "function"), "name");
        described = rendered->data && strstr(rendered->data, json_string_value(name));
    }
    return described ? LM_OK : lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "the chat template of this model does not describe tools");
}

/* ---- all of it ---- */

/* The last message, taken out of `list`, where the answer goes on from it. *out NULL: it does not. Parts are apart in it, as in
 * llama-server. */
static lm_status take_prefill(const lm_dialogue *d, json_t *list, json_t **out, lm_error *e)
{
    size_t n = json_array_size(list);
    json_t *last = json_array_get(list, n - 1), *parts = json_object_get(json_array_get(d->messages, n - 1), "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    const char *before = n > 1 ? json_string_value(json_object_get(json_array_get(list, n - 2), "role")) : NULL;
    lm_text text = { 0 };

    if (!d->goes_on || !role || strcmp(role, "assistant") || json_object_get(last, "tool_calls"))
        return LM_OK;
    if (before && strcmp(before, "assistant") == 0)
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu: two messages of the assistant at the end", n - 1);
    for (size_t i = 0; i < json_array_size(parts); i++)
        lm_text_printf(&text, "%s%s", i ? "\n\n" : "", json_string_value(json_object_get(json_array_get(parts, i), "text")));
    if (text.size)
        json_object_set_new(last, "content", json_stringn(text.data, text.size));
    lm_text_free(&text);
    *out = json_incref(last);
    json_array_remove(list, n - 1);
    return LM_OK;
}

static lm_status render(lm_call *c, const lm_dialogue *d, const lm_tools *tools, lm_tokens *prompt, lm_text *rendered, lm_error *e)
{
    json_t *list = json_array(), *context = json_object(), *last = NULL;
    lm_status status = read_messages(d->messages, list, c->warnings, e);
    lm_prefill prefill = { 0 };

    if (status == LM_OK)
        status = take_prefill(d, list, &last, e);
    if (last)
        prefill = (lm_prefill){ json_string_value(json_object_get(last, "reasoning_content")),
                                json_string_value(json_object_get(last, "content")) };
    if (status == LM_OK)
        status = set_thinking(c, d, context, e);
    if (status == LM_OK && d->kwargs)
        status = read_kwargs(c, d->kwargs, context, e);
    if (tools->list)
        json_object_set(context, "tools", tools->list);
    json_object_set(context, "messages", list);
    json_object_set_new(context, "add_generation_prompt", json_boolean(d->begin || last));
    if (status == LM_OK)
        status = lm_service_render(c->service, context, last ? &prefill : NULL, prompt, rendered, e);
    if (status == LM_OK)
        status = check_expressed(list, rendered, e);
    if (status == LM_OK && tools->list && (status = check_described(c->service, tools->list, rendered, e)) == LM_USAGE && d->shown) {
        json_array_append_new(c->warnings, json_sprintf("tools: %s", e->message));
        status = LM_OK;
    }
    json_decref(list);
    json_decref(context);
    json_decref(last);
    return status;
}

lm_status lm_dialogue_prompt(lm_call *c, const lm_dialogue *d, lm_tokens *prompt, lm_text *rendered, lm_tools **out, lm_error *e)
{
    lm_tools *tools = NULL;
    lm_status status = lm_tools_read(d->tools, d->choice, d->single, &tools, e);

    if (status == LM_OK) {
        tools->keep_reasoning = d->merged;
        tools->unread = d->unread;
        tools->budget = d->budget;
        status = render(c, d, tools, prompt, rendered, e);
    }
    if (out)
        *out = tools;
    else
        lm_tools_free(tools);
    return status;
}

void lm_dialogue_free(lm_dialogue *d)
{
    json_decref(d->messages);
    json_decref(d->tools);
    json_decref(d->choice);
    *d = (lm_dialogue){ 0 };
}
