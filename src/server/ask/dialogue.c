/* dialogue.c - dialogue.h: messages become the form that templates expect, the request's settings become
 * variables of the template, and the template renders the prompt. Read from lm_dialogue_prompt upwards. */
#include "server/ask/dialogue.h"

#include <string.h>

#include "base/json_exact.h"
#include "server/ask/json_body.h"
#include "server/ask/request_limits.h"
#include "server/models/exact.h"

/* ---- messages ---- */

static void add_warnings(json_t *warnings, const lm_text *lines)
{
    for (const char *at = lines->data, *end; at && (end = strchr(at, '\n')); at = end + 1)
        json_array_append_new(warnings, json_stringn(at, (size_t)(end - at)));
}

/* Count the numbers outside strings in a JSON text, which need not be valid. */
static size_t numbers_in_text(const char *text, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            for (i++; i < n && text[i] != '"'; i++)
                i += text[i] == '\\';
        else if (text[i] >= '0' && text[i] <= '9' && ++found)
            i += strspn(text + i, "0123456789.eE+-") - 1;
    }
    return found;
}

/* Count the numbers of a document, including those in arguments of tool calls, which may be strings of
 * JSON. */
static size_t numbers_in(json_t *o, const char *name)
{
    const char *key;
    json_t *value;
    size_t n = json_is_number(o), i;

    if (json_is_string(o) && strcmp(name, "arguments") == 0)
        return numbers_in_text(json_string_value(o), json_string_length(o));
    json_array_foreach(o, i, value)
        n += numbers_in(value, "");
    json_object_foreach(o, key, value)
        n += numbers_in(value, key);
    return n;
}

/* Convert messages to the form that templates expect: *list, and the same as JSON in `text`. The number of
 * numbers is limited, because each is printed and parsed several times. */
static lm_status read_messages(lm_call *c, json_t *messages, json_t **list, lm_text *text, lm_error *e)
{
    lm_text lines = { 0 }, given = { 0 };
    lm_status status;

    if (!json_array_size(messages))
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "'messages' is empty; at least one message is required");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_MESSAGES, json_array_size(messages), e));
    LM_TRY(lm_limit_check(LM_LIMIT_ID_NUMBERS, numbers_in(messages, ""), e));
    status = lm_json_exact(messages, &c->wide, &given, e);
    if (status == LM_OK)
        status = lm_messages_read(given.data, given.size, &lines, text, e);
    add_warnings(c->warnings, &lines);
    lm_text_free(&given);
    lm_text_free(&lines);
    if (status == LM_OK)
        /* In arguments, which were strings. */
        lm_text_add_wide_numbers(&c->wide, text->data, text->size);
    if (status == LM_OK && !(*list = lm_json_body(text->data, text->size, JSON_ALLOW_NUL, NULL, NULL)))
        status = lm_fail_memory(e, "the conversation", text->size);
    return status;
}

json_t *lm_dialogue_call(const char *id, const char *name, json_t *arguments)
{
    return json_pack("{s:s, s:s, s:{s:s, s:O*}}", "id", id, "type", "function", "function", "name", name,
                     "arguments", arguments);
}

/* ---- variables of the template ---- */

/* Add the request's variables to `context`, except the server's own: other fields set those, or no request
 * can. */
static lm_status read_kwargs(lm_call *c, json_t *given, json_t *context, lm_error *e)
{
    static const char *const ours[] = { "messages",  "tools",     "add_generation_prompt",
                                        "bos_token", "eos_token", "now",
                                        NULL };
    const char *name;
    json_t *value;

    LM_TRY(lm_limit_check(LM_LIMIT_ID_VARIABLES, json_object_size(given), e));
    json_object_foreach(given, name, value) {
        for (size_t i = 0; ours[i]; i++)
            if (strcmp(ours[i], name) == 0)
                return lm_fail(e, LM_USAGE, "chat_template_kwargs", LM_NO_OFFSET,
                               "the variable %s is set by the server", name);
        if (!lm_template_uses(c->service->template, name))
            lm_field_warn(c->warnings,
                          "chat_template_kwargs: the chat template of this model does not use '%.60s'; "
                          "ignored",
                          name);
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
    static const char *const names[] = { "enable_thinking", "thinking", "thinking_budget", "reasoning_effort",
                                         NULL };

    for (size_t i = 0; names[i]; i++)
        if (lm_template_uses(s->template, names[i]))
            return true;
    return false;
}

/* A model with channels (harmony) always reasons: off means the lowest effort. */
static const char *effort_of(const lm_service *s, const char *effort, lm_thinking thinking)
{
    if (!has_channels(s))
        return effort;
    if (thinking == LM_THINKING_OFF || (effort && strcmp(effort, "minimal") == 0))
        return "low";
    return effort && (strcmp(effort, "xhigh") == 0 || strcmp(effort, "max") == 0) ? "high" : effort;
}

static lm_status check_effort(const lm_turn *t, lm_error *e)
{
    static const char *const efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh", "max" };

    if (!t->body.effort)
        return LM_OK;
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        if (strcmp(efforts[i], t->body.effort) == 0)
            return LM_OK;
    return lm_fail(e, LM_USAGE, t->reasoning_field, LM_NO_OFFSET,
                   "the value \"%.40s\" is unknown: expected none, minimal, low, medium, high, xhigh or max",
                   t->body.effort);
}

/* Whether the model reasons: a budget of 0 and the effort "none" turn it off, another effort turns it on;
 * else the server's default. */
static lm_thinking thinking_of(const lm_service *s, const lm_turn *t)
{
    if (t->reasoning_budget == 0 || (t->body.effort && strcmp(t->body.effort, "none") == 0))
        return LM_THINKING_OFF;
    if (t->thinking != LM_THINKING_DEFAULT)
        return t->thinking;
    return t->body.effort ? LM_THINKING_ON : s->o.thinking;
}

static lm_status set_thinking(lm_call *c, const lm_turn *t, json_t *context, lm_error *e)
{
    LM_TRY(check_effort(t, e));
    lm_thinking thinking = thinking_of(c->service, t);
    const char *effort   = effort_of(c->service, t->body.effort, thinking);
    bool explicit = t->thinking != LM_THINKING_DEFAULT || t->body.effort || !t->reasoning_budget;
    if (effort)
        json_object_set_new(context, "reasoning_effort", json_string(effort));
    if (thinking == LM_THINKING_DEFAULT)
        return LM_OK;
    if (explicit && !has_switch(c->service))
        lm_field_warn(c->warnings, "%s: the chat template of this model has no switch for reasoning",
                      t->reasoning_field);
    lm_reasoning_switch(context, thinking == LM_THINKING_ON);
    if (thinking == LM_THINKING_ON && t->reasoning_budget > 0)
        json_object_set_new(context, "thinking_budget", json_integer((json_int_t)t->reasoning_budget));
    return LM_OK;
}

/* ---- tools that the template leaves out ---- */

/* Check that the prompt describes the tools: each one's name must be in it. That is not sufficient, because a
 * name may be in the prompt anyway, so the template must be known to describe tools. A prompt that is only
 * shown gets a warning instead. */
static lm_status check_described(lm_call *c, const lm_turn *t, const lm_text *rendered, lm_error *e)
{
    static const char why[] = "the chat template of this model does not describe tools";
    bool described = c->service->describes_tools;

    for (size_t i = 0; described && i < json_array_size(t->tools.list); i++) {
        const json_t *name = json_object_get(json_object_get(json_array_get(t->tools.list, i), "function"),
                                             "name");
        described = rendered->data && strstr(rendered->data, json_string_value(name));
    }
    if (!described && !t->only_shown)
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "%s", why);
    if (!described)
        lm_field_warn(c->warnings, "tools: %s", why);
    return LM_OK;
}

/* ---- rendering ---- */

/* Take the last message out of `list` if the answer continues it. *out NULL: it does not. Empty lines
 * separate its parts, as in llama-server. */
static lm_status take_prefill(const lm_turn *t, json_t *list, json_t **out, lm_error *e)
{
    size_t n = json_array_size(list);
    json_t *last = json_array_get(list, n - 1),
           *parts = json_object_get(json_array_get(t->body.messages, n - 1), "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    const char *before = n > 1 ? json_string_value(json_object_get(json_array_get(list, n - 2), "role"))
                               : NULL;
    lm_text text = { 0 };

    if (!t->continue_final || !role || strcmp(role, "assistant") || json_object_get(last, "tool_calls"))
        return LM_OK;
    if (before && strcmp(before, "assistant") == 0)
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                       "message %zu is the second assistant message at the end; only one can be continued",
                       n - 1);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *one = json_object_get(part, "text");
        if (!json_is_string(one))
            one = json_object_get(part, "refusal");
        lm_text_add_str(&text, i ? "\n\n" : "");
        lm_text_add(&text, json_string_value(one), json_string_length(one));
    }
    if (text.size)
        json_object_set_new(last, "content", json_stringn(text.data, text.size));
    lm_text_free(&text);
    *out = json_incref(last);
    json_array_remove(list, n - 1);
    return LM_OK;
}

static lm_status render(lm_call *c, const lm_turn *t, lm_tokens *prompt, lm_text *rendered, lm_error *e)
{
    json_t *list = NULL, *context = json_object(), *last = NULL;
    lm_text text = { 0 };
    lm_status status = read_messages(c, t->body.messages, &list, &text, e);
    lm_prefill prefill = { 0 };

    if (status == LM_OK)
        status = take_prefill(t, list, &last, e);
    if (last)
        prefill = (lm_prefill){ json_string_value(json_object_get(last, "reasoning_content")),
                                json_string_value(json_object_get(last, "content")) };
    if (status == LM_OK)
        status = set_thinking(c, t, context, e);
    if (status == LM_OK && t->body.kwargs)
        status = read_kwargs(c, t->body.kwargs, context, e);
    if (t->tools.list)
        json_object_set(context, "tools", t->tools.list);
    json_object_set(context, "messages", list);
    json_object_set_new(context, "add_generation_prompt", json_boolean(t->generation_prompt || last));
    if (status == LM_OK)
        status = lm_service_render(c->service, context, &c->wide, last ? &prefill : NULL, prompt, rendered,
                                   e);
    if (status == LM_OK)
        status = lm_messages_rendered(text.data, text.size, rendered, e);
    if (status == LM_OK && t->tools.list)
        status = check_described(c, t, rendered, e);
    json_decref(list);
    json_decref(context);
    json_decref(last);
    lm_text_free(&text);
    return status;
}

lm_status lm_dialogue_prompt(lm_call *c, lm_turn *t, lm_tokens *prompt, lm_text *rendered, lm_error *e)
{
    LM_TRY(lm_tools_read(t->body.tools, t->body.tool_choice, t->body.enforced, !t->parallel_calls, &t->tools,
                         e));
    t->tools.no_reasoning = thinking_of(c->service, t) == LM_THINKING_OFF;
    return render(c, t, prompt, rendered, e);
}

/* ---- truncation ---- */

static const char *role_of(const json_t *messages, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));

    return role ? role : "";
}

/* Return the messages from `first` on, and system messages before it. NULL: out of memory. */
static json_t *messages_from(const json_t *all, size_t first)
{
    json_t *some = json_array();

    for (size_t i = 0; i < json_array_size(all); i++)
        if (i >= first || strcmp(role_of(all, i), "system") == 0 || strcmp(role_of(all, i), "developer") == 0)
            json_array_append(some, json_array_get(all, i));
    return some;
}

/* Render the conversation without what is before message `first`. */
static lm_status render_from(lm_call *c, lm_turn *t, json_t *all, size_t first, lm_text *rendered,
                             lm_error *e)
{
    json_t *some = messages_from(all, first), *warnings = c->warnings;

    if (!some)
        return lm_fail_memory(e, "messages", 0);
    t->prompts.items->n = 0;
    lm_text_clear(rendered);
    t->body.messages = lm_turn_keep(t, some);
    c->warnings = json_array();          /* the conversation has been rendered before: they are repetitions */
    lm_status status = render(c, t, t->prompts.items, rendered, e);
    json_decref(c->warnings);
    c->warnings = warnings;
    return status;
}

/* Return the first user message from `i` on; past the last: the number of messages. */
static size_t next_start(const json_t *all, size_t i)
{
    while (i < json_array_size(all) && strcmp(role_of(all, i), "user"))
        i++;
    return i;
}

/* Leave out the fewest messages with which the prompt fits, or all before the last user message. */
static lm_status leave_out(lm_call *c, lm_turn *t, size_t max, lm_text *rendered, lm_error *e)
{
    json_t *all = t->body.messages;
    size_t low = 0, high = json_array_size(all), last = high;

    while (last && strcmp(role_of(all, last - 1), "user"))
        last--;
    if (!last)
        return LM_OK;
    for (high = --last; low < high;) {                   /* from `high` on it fits, if anything does */
        size_t middle = next_start(all, low + (high - low) / 2);
        if (middle >= high) {
            middle = next_start(all, low + 1);
            if (middle >= high)
                break;
        }
        LM_TRY(render_from(c, t, all, middle, rendered, e));
        if (t->prompts.items->n <= max)
            high = middle;
        else
            low = middle;
    }
    return render_from(c, t, all, high, rendered, e);
}

/* Leave out tokens behind the first `keep`, so that `max` remain. */
static void cut(lm_tokens *p, int64_t keep, size_t max)
{
    size_t first = keep < 0 || (size_t)keep >= max ? max - 1 : (size_t)keep;

    if (p->n <= max)
        return;
    memmove(p->ids + first, p->ids + p->n - (max - first), (max - first) * sizeof *p->ids);
    p->n = max;
}

lm_status lm_dialogue_truncate(lm_call *c, lm_turn *t, lm_text *rendered, lm_error *e)
{
    size_t context = lm_engine_context(c->service->engine), half = context / 2, before = t->prompts.items->n;
    size_t room = t->max_tokens > 0 && (uint64_t)t->max_tokens < half ? (size_t)t->max_tokens : half;

    if (before < context || context < 2)
        return LM_OK;
    if (t->body.messages)
        LM_TRY(leave_out(c, t, context - room, rendered, e));
    cut(t->prompts.items, t->keep_first, context - room);
    lm_field_warn(c->warnings, "truncate: %zu of the prompt's %zu tokens are left out",
                  before - t->prompts.items->n, before);
    return LM_OK;
}
