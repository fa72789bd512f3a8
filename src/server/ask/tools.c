/* tools.c - tools.h: tools are read, then the choice among them; a grammar makes calls match. Parameters that
 * a grammar cannot enforce are relaxed, one keyword at a time. Read from lm_tools_prepare and lm_tools_read
 * upwards. Threads: a worker. */
#include "server/ask/tools.h"

#include <stdlib.h>
#include <string.h>

#include "server/ask/request_limits.h"
#include "server/front/memory.h"

/* ---- list of tools ---- */

static bool is_name(const char *s)
{
    size_t n = strlen(s);

    if (!n || n > LM_LIMIT_TOOL_NAME)
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' ||
              *s == '-' || *s == '.'))
            return false;
    return true;
}

/* Check the type and the name of tool i. *out: the function; Anthropic's tools, and OpenAI's older functions,
 * are one themselves. */
static lm_status read_function(json_t *tool, size_t i, json_t **out, lm_error *e)
{
    const char *type = json_string_value(json_object_get(tool, "type")), *name;
    json_t *f = json_object_get(tool, "function");
    bool custom = type && strcmp(type, "custom") == 0 && !json_object_get(tool, "custom");

    if (type && strcmp(type, "function") && !custom && !json_object_get(tool, "input_schema"))
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET,
                       "tools[%zu]: the type \"%.40s\" is not supported: only functions are", i, type);
    *out = f ? f : tool;
    name = json_string_value(json_object_get(*out, "name"));
    if (!name)
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "tools[%zu] must be an object that has a name", i);
    return is_name(name) ? LM_OK
                         : lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET,
                                   "tools[%zu] \"%.140s\": a name must have 1 to %d letters, digits, "
                                   "underscores, hyphens or points",
                                   i, name, LM_LIMIT_TOOL_NAME);
}

static lm_status add_tool(lm_tools *t, json_t *tool, size_t i, lm_error *e)
{
    json_t *f = tool, *schema, *about, *o;

    LM_TRY(read_function(tool, i, &f, e));
    const char *name = json_string_value(json_object_get(f, "name"));
    about = json_object_get(f, "description");
    schema = json_object_get(f, "parameters");
    if (!schema)
        schema = json_object_get(f, "input_schema");
    if (schema && !json_is_object(schema) && !json_is_null(schema))
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET,
                       "tools[%zu] \"%s\": parameters must be a JSON Schema, an object", i, name);
    if (about && !json_is_string(about) && !json_is_null(about))
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "tools[%zu] \"%s\": description must be a string",
                       i, name);
    o = json_pack("{s:s, s:s}", "name", name, "description", "");
    if (json_is_string(about))
        json_object_set(o, "description", about);
    if (json_is_object(schema))
        json_object_set(o, "parameters", schema);
    else
        json_object_set_new(o, "parameters", json_pack("{s:s, s:{}}", "type", "object", "properties"));
    if (!t->wants_strict && !(t->wants_strict = json_array()))
        return lm_fail_memory(e, "tools", 0);
    bool strict = json_is_true(json_object_get(f, "strict")) || json_is_true(json_object_get(tool, "strict"));
    json_array_append_new(t->wants_strict, json_boolean(strict));
    return json_array_append_new(t->list, json_pack("{s:s, s:o}", "type", "function", "function", o)) == 0
               ? LM_OK : lm_fail_memory(e, "tools", 0);
}

/* Return the name of a tool in allowed_tools or in a choice: {name}, or {function: {name}}. */
static const char *name_of(const json_t *o)
{
    const json_t *f = json_object_get(o, "function");

    return json_string_value(json_object_get(f ? f : o, "name"));
}

static bool is_named(const json_t *only, const char *name)
{
    for (size_t i = 0; i < json_array_size(only); i++)
        if (strcmp(name_of(json_array_get(only, i)), name) == 0)
            return true;
    return false;
}

static lm_status check_named(const lm_tools *t, const json_t *only, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(only); i++) {
        const char *name = name_of(json_array_get(only, i));
        size_t k = 0;

        while (k < json_array_size(t->list) && strcmp(name_of(json_array_get(t->list, k)), name))
            k++;
        if (k == json_array_size(t->list))
            return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                           "'tool_choice' names \"%.64s\", which is not one of the tools", name);
    }
    return LM_OK;
}

/* Collect the tools that may be called. `only`: an array that names them; NULL: all. */
static lm_status callable(lm_tools *t, const json_t *only, const json_t *enforced, lm_error *e)
{
    json_t *tool;
    size_t i, room = json_array_size(t->list) + 1;

    if (!(t->items = lm_memory_zero(room, sizeof *t->items)) || !(t->texts = json_array()) ||
        !(t->strict = lm_memory_zero(room, sizeof *t->strict)))
        return lm_fail_memory(e, "tools", 0);
    json_array_foreach(t->list, i, tool) {
        json_t *f = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        char *text;

        for (size_t k = 0; k < t->n; k++)
            if (strcmp(t->items[k].name, name) == 0)
                return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET,
                               "tools[%zu] \"%s\": another tool has the same name", i, name);
        if (only && !is_named(only, name))
            continue;
        const json_t *schema = json_object_get(enforced, name);
        if (!(text = json_dumps(schema ? schema : json_object_get(f, "parameters"), JSON_COMPACT)))
            return lm_fail_memory(e, "tools", 0);
        json_array_append_new(t->texts, json_string(text));
        lm_heap_free(text);
        t->strict[t->n] = json_is_true(json_array_get(t->wants_strict, i));
        const json_t *kept = json_array_get(t->texts, json_array_size(t->texts) - 1);
        t->items[t->n++] = (lm_answer_tool){ .name = name, .parameters = json_string_value(kept) };
    }
    return check_named(t, only, e);
}

/* ---- tool choice ---- */

/* Read {type: "allowed_tools", mode, tools}, or the same in a member "allowed_tools". */
static lm_status read_allowed(lm_tools *t, const json_t *choice, json_t *only, lm_error *e)
{
    const json_t *inner = json_object_get(choice, "allowed_tools");
    const char *mode;
    json_t *list;

    if (inner)
        choice = inner;
    mode = json_string_value(json_object_get(choice, "mode"));
    list = json_object_get(choice, "tools");
    if (mode && strcmp(mode, "required") == 0)
        t->use = LM_TOOLS_REQUIRED;
    else if (mode && strcmp(mode, "auto"))
        return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                       "the mode \"%.40s\" is unknown: expected auto or required", mode);
    if (!json_array_size(list))
        return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                       "allowed_tools requires a non-empty array of tools");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_CHOICES, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!name_of(json_array_get(list, i)))
            return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET, "tool %zu of allowed_tools has no name",
                           i);
    json_array_extend(only, list);
    return LM_OK;
}

/* Read the choice. The tools that it names are appended to `only`, an empty array. */
static lm_status read_choice(lm_tools *t, json_t *choice, json_t *only, lm_error *e)
{
    const char *word = json_is_string(choice) ? json_string_value(choice)
                                              : json_string_value(json_object_get(choice, "type"));

    t->single |= json_is_true(json_object_get(choice, "disable_parallel_tool_use"));
    if (!choice || json_is_null(choice) || (word && !*word) ||
        (json_is_object(choice) && !json_object_size(choice)))
        return LM_OK;
    if (!word && json_is_string(json_object_get(choice, "name")))
        word = "function";                               /* OpenAI's older function_call */
    if (!word)
        return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                       "'tool_choice' must be none, auto, required, or an object that names a tool");
    if (strcmp(word, "allowed_tools") == 0)
        return read_allowed(t, choice, only, e);
    if (strcmp(word, "none") == 0)
        t->use = LM_TOOLS_NONE;
    else if (strcmp(word, "required") == 0 || strcmp(word, "any") == 0)
        t->use = LM_TOOLS_REQUIRED;
    else if (strcmp(word, "function") == 0 || strcmp(word, "tool") == 0) {
        t->use = LM_TOOLS_REQUIRED;
        t->single = true;
        if (!name_of(choice))
            return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET, "'tool_choice' does not name a tool");
        json_array_append(only, choice);
    } else if (strcmp(word, "auto"))
        return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                       "'tool_choice' has the unknown value \"%.40s\": expected none, auto, required, "
                       "allowed_tools or a tool",
                       word);
    return LM_OK;
}

static lm_status read_list(lm_tools *t, const json_t *tools, const json_t *only, const json_t *enforced,
                           lm_error *e)
{
    if (!json_array_size(tools))
        return t->use != LM_TOOLS_REQUIRED
                   ? LM_OK
                   : lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                             "'tool_choice' requires a call, but the request has no tools");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_TOOLS, json_array_size(tools), e));
    if (!(t->list = json_array()))
        return lm_fail_memory(e, "tools", 0);
    for (size_t i = 0; i < json_array_size(tools); i++)
        LM_TRY(add_tool(t, json_array_get(tools, i), i, e));
    return callable(t, json_array_size(only) ? only : NULL, enforced, e);
}

lm_status lm_tools_read(const json_t *tools, json_t *choice, const json_t *enforced, bool single, lm_tools *t,
                        lm_error *e)
{
    json_t *only = json_array();
    lm_status status;

    *t = (lm_tools){ .single = single };
    if (!only)
        return lm_fail_memory(e, "tools", 0);
    status = read_choice(t, choice, only, e);
    if (status == LM_OK)
        status = read_list(t, tools, only, enforced, e);
    json_decref(only);
    return status;
}

void lm_tools_free(lm_tools *t)
{
    json_decref(t->list);
    json_decref(t->texts);
    json_decref(t->wants_strict);
    lm_heap_free(t->strict);
    lm_heap_free(t->items);
    *t = (lm_tools){ 0 };
}

/* ---- errors of grammars ---- */

static bool is_about_schema(lm_status status)
{
    return status == LM_USAGE || status == LM_UNSUPPORTED || status == LM_LIMIT;
}

static lm_status in_field(lm_status status, lm_error *e)
{
    lm_error why = *e;

    if (!is_about_schema(status))
        return status;
    return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "%s%s%s", why.where, *why.where ? ": " : "",
                   why.message);
}

/* ---- parameters that a grammar cannot enforce ---- */

enum {
    MAX_CHECKS = 96,                 /* maximum checks of schemas per request; if more are needed, nothing
                                        is enforced */
    CHECK_WORK  = 1000000,           /* units of work per check: a small part of a grammar's limit, as
                                        there are many checks */
};

/* Read the next part of a JSON pointer, unescaped. False: there is none, or it is too long. */
static bool next_part(const char **at, char *part, size_t size)
{
    size_t n = 0;

    if (**at != '/')
        return false;
    for (++*at; **at && **at != '/' && n + 1 < size; ++*at) {
        part[n] = **at;
        if (**at == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
            part[n] = *++*at == '0' ? '~' : '/';
        n++;
    }
    part[n] = 0;
    return !**at || **at == '/';
}

static json_t *member_of(json_t *o, const char *part)
{
    return json_is_array(o) ? json_array_get(o, strtoul(part, NULL, 10)) : json_object_get(o, part);
}

/* Remove the keyword at `pointer` ("#/properties/x/pattern"). False: there is none. */
static bool remove_keyword(json_t *schema, const char *pointer)
{
    const char *at = pointer + (*pointer == '#');
    json_t *parent = NULL, *o = schema;
    char part[256];

    while (o && next_part(&at, part, sizeof part)) {
        parent = o;
        o = member_of(o, part);
    }
    return parent && o && !*at && json_is_object(parent) && json_object_del(parent, part) == 0;
}

static lm_status check_schema(const char *text, lm_error *why)
{
    const lm_grammar_options o = { .max_work = CHECK_WORK };
    lm_grammar *g = NULL;
    lm_status status = lm_grammar_json_schema(text, strlen(text), &o, &g, why);

    lm_grammar_free(g);
    return status;
}

/* Rewrite the parameters of tool i without the keyword at `pointer`; if there is none, require only an
 * object. */
static lm_status relax_tool(lm_tools *t, size_t i, const char *pointer, lm_error *e)
{
    json_t *schema = json_loads(t->items[i].parameters, JSON_ALLOW_NUL, NULL);
    char *text;

    if (!remove_keyword(schema, pointer)) {
        json_decref(schema);
        schema = json_pack("{s:s}", "type", "object");
    }
    text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    if (!text || json_array_append_new(t->texts, json_string(text)) != 0) {
        lm_heap_free(text);
        return lm_fail_memory(e, "tools", 0);
    }
    lm_heap_free(text);
    t->items[i].parameters = json_string_value(json_array_get(t->texts, json_array_size(t->texts) - 1));
    return LM_OK;
}

/* Return the index of a tool in the request. */
static size_t index_of(const lm_tools *t, const char *name)
{
    size_t i = 0;

    while (i < json_array_size(t->list) && strcmp(name_of(json_array_get(t->list, i)), name))
        i++;
    return i;
}

/* Check tool i alone, and leave keywords out until a grammar can enforce the rest of its parameters. */
static lm_status check_tool(lm_tools *t, size_t i, unsigned *checks, json_t *warnings, lm_error *e)
{
    bool must = t->use == LM_TOOLS_REQUIRED || t->strict[i];
    lm_error why = { 0 };
    lm_status status;

    while (*checks < MAX_CHECKS && ++*checks &&
           is_about_schema(status = check_schema(t->items[i].parameters, &why))) {
        const char *pointer = *why.where == '#' ? why.where : "#";

        if (must && status != LM_LIMIT)
            return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET, "tools[%zu] \"%.128s\": parameters: %.120s: %s",
                           index_of(t, t->items[i].name), t->items[i].name, pointer, why.message);
        if (must)
            /* All tools together may still be within the real limit. */
            break;
        lm_field_warn(warnings, "tools: %s: %s: %s: not enforced", t->items[i].name, pointer, why.message);
        LM_TRY(relax_tool(t, i, pointer, e));
    }
    return LM_OK;
}

/* Make a grammar for all tools. If that fails, reduce each of them, and try all of them again. */
static lm_status constrain_calls(const lm_service *s, lm_tools *t, const lm_grammar_calls_options *o,
                            lm_grammar **grammar, json_t *warnings, lm_error *e)
{
    lm_error why = { 0 };
    unsigned checks = 0;
    lm_status status = lm_grammar_calls(&s->style, t->items, t->n, o, grammar, &why);

    for (size_t i = 0; is_about_schema(status) && i < t->n; i++)
        LM_TRY(check_tool(t, i, &checks, warnings, e));
    if (status == LM_OK || !is_about_schema(status)) {
        *e = why;
        return status;
    }
    status = lm_grammar_calls(&s->style, t->items, t->n, o, grammar, e);
    if (!is_about_schema(status) || t->use == LM_TOOLS_REQUIRED)
        return in_field(status, e);
    lm_field_warn(warnings, "tools: %s: the form of calls is not enforced", e->message);
    *grammar = NULL;
    return LM_OK;
}

/* The constraint on the answer applies after the reasoning that the prompt has begun. `required`: the answer
 * must not end before. */
static lm_status apply_after_reasoning(const lm_service *s, lm_grammar **grammar, bool required, lm_error *e)
{
    const char *mark = s->style.reasoning_end;
    lm_tokens ids = { 0 };
    lm_trigger trigger = { .word = mark, .before = true };
    lm_grammar *later = NULL;
    lm_status status;

    if (lm_tokenize(s->tokenizer, mark, strlen(mark), 0, &ids, NULL) == LM_OK && ids.n &&
        lm_tokenizer_is_special(s->tokenizer, ids.ids[0]))
        trigger = (lm_trigger){ .token = ids.ids[0], .before = true };
    lm_tokens_free(&ids);
    status = lm_grammar_after(*grammar, &trigger, 1, required, &later, e);
    if (status == LM_OK) {
        lm_grammar_free(*grammar);
        *grammar = later;
    }
    return status;
}

lm_status lm_tools_prepare(const lm_service *s, lm_tools *t, const lm_text *prompt, lm_whitespace w,
                           lm_grammar **grammar, json_t *warnings, lm_error *e)
{
    bool calls = t->n && t->use != LM_TOOLS_NONE;
    lm_grammar_calls_options o = { .tokenizer = s->tokenizer,
                                   .required = t->use == LM_TOOLS_REQUIRED,
                                   .single = t->single,
                                   .no_reasoning = t->no_reasoning,
                                   .whitespace = w };

    t->in_reasoning = lm_answer_in_reasoning(&s->style, prompt->data ? prompt->data : "", prompt->size);
    o.in_reasoning = t->in_reasoning;
    t->reads = s->style.reasoning || lm_answer_style_name(&s->style);
    if (calls && *grammar)
        return lm_fail(e, LM_USAGE, "tools", LM_NO_OFFSET,
                       "tools that may be called cannot be combined with response_format or a grammar");
    if (calls && (t->use == LM_TOOLS_REQUIRED || lm_answer_style_name(&s->style))) {
        LM_TRY(constrain_calls(s, t, &o, grammar, warnings, e));
        t->eager = *grammar != NULL;
        bool later = *grammar && t->in_reasoning && t->use != LM_TOOLS_REQUIRED;
        return later ? apply_after_reasoning(s, grammar, false, e) : LM_OK;
    }
    if (calls)
        lm_field_warn(warnings, "tools: the calls of this model are not parsed and are part of the content: %s",
                      s->style.unread);
    return *grammar && t->in_reasoning ? apply_after_reasoning(s, grammar, true, e) : LM_OK;
}

lm_answer_options lm_tools_options(const lm_tools *t, const char *const *ends, uint64_t ids)
{
    return (lm_answer_options){ .tools = t->items,
                                .n_tools = t->use == LM_TOOLS_NONE ? 0 : t->n,
                                .ends = ends,
                                .ids = ids,
                                .in_reasoning = t->in_reasoning,
                                .eager = t->eager };
}

void lm_reasoning_switch(json_t *kwargs, bool on)
{
    json_object_set_new(kwargs, "enable_thinking", json_boolean(on));
    json_object_set_new(kwargs, "thinking", json_boolean(on));
    if (!on)
        json_object_set_new(kwargs, "thinking_budget", json_integer(0));
}
