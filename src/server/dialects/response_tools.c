/* response_tools.c - the tools of /v1/responses as functions. Read from lm_response_tools upwards. Threads: a
 * worker. */
#include <string.h>

#include "server/dialects/openai.h"
#include "server/dialects/responses.h"

/* Where the functions of a request are collected, and the field that errors name. */
typedef struct reading {
    json_t     *functions, *enforced, *called;
    json_t     *warnings;
    const char *field;
    lm_error   *e;
} reading;

static const char *text_of(const json_t *o, const char *member)
{
    const char *text = json_string_value(json_object_get(o, member));

    return text ? text : "";
}

void lm_response_tool_name(const char *space, const char *name, lm_text *out)
{
    size_t n = space ? strlen(space) : 0;
    bool ends = n >= 2 && strcmp(space + n - 2, "__") == 0;

    lm_text_printf(out, "%s%s%s", n ? space : "", n && !ends ? "__" : "", name);
}

/* Append a function that the model sees; takes `f`. `about`: its description. `schema`: what its arguments
 * must match instead of its parameters; NULL: these. */
static lm_status add_function(reading *r, json_t *f, const char *type, const json_t *tool, const char *space,
                              const char *about, json_t *schema)
{
    lm_text name = { 0 };
    json_t *entry = json_pack("{s:s, s:s}", "type", type, "name", text_of(tool, "name"));

    lm_response_tool_name(space, text_of(tool, "name"), &name);
    if (*space)
        json_object_set_new(entry, "namespace", json_string(space));
    json_object_set_new(r->called, name.data, entry);
    json_object_set_new(f, "type", json_string("function"));
    json_object_set_new(f, "name", json_string(name.data));
    if (about)
        json_object_set_new(f, "description", json_string(about));
    if (schema)
        json_object_set_new(r->enforced, name.data, schema);
    lm_text_free(&name);
    return json_array_append_new(r->functions, f) == 0 ? LM_OK : lm_fail_memory(r->e, "tools", 0);
}

static lm_status add_custom(reading *r, const json_t *tool, size_t i, const char *space)
{
    const json_t *format = json_object_get(tool, "format");
    json_t *f = NULL, *schema = NULL;
    lm_error why = { 0 };
    lm_status status = lm_openai_custom(format, format, text_of(tool, "description"), &f, &schema, &why);

    if (status == LM_OK)
        return add_function(r, f, "custom", tool, space, NULL, schema);
    return lm_fail(r->e, status, r->field, LM_NO_OFFSET, "%s[%zu] \"%.64s\": %s", r->field, i,
                   text_of(tool, "name"), why.message);
}

/* ---- tools ---- */

static lm_status add_local_shell(reading *r)
{
    json_t *tool = json_pack("{s:s}", "name", "local_shell");
    json_t *f = json_pack("{s:{s:s, s:{s:{s:s, s:{s:s}}, s:{s:s}, s:{s:s}}, s:[s]}}", "parameters", "type",
                          "object", "properties", "command", "type", "array", "items", "type", "string",
                          "timeout_ms", "type", "integer", "working_directory", "type", "string", "required",
                          "command");
    lm_status status = add_function(r, f, "local_shell", tool, "",
                                    "Run a command on the user's machine and return its output.", NULL);

    json_decref(tool);
    return status;
}

static lm_status add_tool(reading *r, json_t *tool, size_t i, const char *space);

/* Add the tools of a namespace. Its description precedes that of its first tool. */
static lm_status add_namespace(reading *r, const json_t *tool, size_t i)
{
    const json_t *tools = json_object_get(tool, "tools");
    const char *space = text_of(tool, "name"), *about = text_of(tool, "description");
    size_t before = json_array_size(r->functions);

    if (!*space || !json_is_array(tools))
        return lm_fail(r->e, LM_USAGE, r->field, LM_NO_OFFSET,
                       "%s[%zu], a namespace, requires name and tools", r->field, i);
    for (size_t k = 0; k < json_array_size(tools); k++)
        LM_TRY(add_tool(r, json_array_get(tools, k), i, space));
    json_t *first = json_array_get(r->functions, before);
    if (first && *about)
        json_object_set_new(first, "description",
                            json_sprintf("%s\n%s", about, text_of(first, "description")));
    return LM_OK;
}

/* Whether clients list this hosted tool whatever server they use, and can do without it. */
static bool is_optional(const char *type)
{
    return strncmp(type, "web_search", 10) == 0 || strcmp(type, "image_generation") == 0;
}

static lm_status add_tool(reading *r, json_t *tool, size_t i, const char *space)
{
    const char *type = text_of(tool, "type");

    if (!*type)
        return lm_fail(r->e, LM_USAGE, r->field, LM_NO_OFFSET, "%s[%zu] must be an object with a type",
                       r->field, i);
    if (strcmp(type, "function") == 0)
        return add_function(r, json_copy(tool), type, tool, space, NULL, NULL);
    if (strcmp(type, "custom") == 0)
        return add_custom(r, tool, i, space);
    if (strcmp(type, "namespace") == 0 && !*space)
        return add_namespace(r, tool, i);
    if (strcmp(type, "local_shell") == 0 && !*space)
        return add_local_shell(r);
    if (!is_optional(type))
        return lm_fail(r->e, LM_USAGE, r->field, LM_NO_OFFSET,
                       "%s[%zu]: the type \"%.40s\" is not supported", r->field, i, type);
    lm_field_warn(r->warnings, "%s: element %zu of type %.40s is left out", r->field, i, type);
    return LM_OK;
}

/* ---- tool choice ---- */

/* Return a tool of the choice, {type, name, namespace}, as the function that the model sees. NULL: it is not
 * one of the tools. */
static json_t *chosen(json_t *called, const json_t *choice)
{
    const char *type = text_of(choice, "type"), *space = text_of(choice, "namespace");
    const json_t *f = json_object_get(choice, "function");
    const char *name = strcmp(type, "local_shell") ? text_of(f ? f : choice, "name") : type;
    const char *seen;
    json_t *entry;

    json_object_foreach(called, seen, entry)
        if (strcmp(text_of(entry, "type"), type) == 0 && strcmp(text_of(entry, "namespace"), space) == 0 &&
            strcmp(text_of(entry, "name"), name) == 0)
            return json_pack("{s:s, s:s}", "type", "function", "name", seen);
    return NULL;
}

static bool is_word(const char *type)
{
    static const char *const words[] = { "auto", "none", "required", "any" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(type, words[i]) == 0)
            return true;
    return false;
}

static lm_status read_choice(lm_response_turn *v, json_t *warnings, lm_error *e)
{
    const char *type = text_of(v->tool_choice, "type");
    bool allowed = strcmp(type, "allowed_tools") == 0;
    const json_t *list = json_object_get(v->tool_choice, "tools");
    json_t *made;

    v->turn.body.tool_choice = v->tool_choice;
    if (!*type || is_word(type) || (allowed && !json_array_size(list)))
        return LM_OK;                                /* for lm_tools_read, which also reports what is wrong */
    made = allowed ? json_array() : NULL;
    for (size_t i = 0; i < (allowed ? json_array_size(list) : 1); i++) {
        const json_t *one = allowed ? json_array_get(list, i) : v->tool_choice;
        json_t *f = chosen(v->items.called, one);

        if (!f && allowed && is_optional(text_of(one, "type"))) {
            lm_field_warn(warnings, "tool_choice: element %zu of type %.40s is left out", i,
                          text_of(one, "type"));
            continue;
        }
        if (!f) {
            json_decref(made);
            return lm_fail(e, LM_USAGE, "tool_choice", LM_NO_OFFSET,
                           "'tool_choice' names the %.40s \"%.64s\", which is not one of the tools",
                           text_of(one, "type"), text_of(one, "name"));
        }
        if (allowed)
            json_array_append_new(made, f);
        else
            made = f;
    }
    if (allowed) {
        json_t *choice = json_copy(v->tool_choice);
        json_object_set_new(choice, "tools", made);
        made = choice;
    }
    return (v->turn.body.tool_choice = lm_turn_keep(&v->turn, made)) ? LM_OK : lm_fail_memory(e, "tools", 0);
}

lm_status lm_response_tools(lm_response_turn *v, json_t *warnings, lm_error *e)
{
    reading r = { .warnings = warnings, .field = "tools", .e = e };

    r.functions = v->turn.body.tools = lm_turn_keep(&v->turn, json_array());
    r.enforced = v->turn.body.enforced = lm_turn_keep(&v->turn, json_object());
    r.called = v->items.called = json_object();
    if (!r.functions || !r.enforced || !r.called)
        return lm_fail_memory(e, "tools", 0);
    for (size_t i = 0; i < json_array_size(v->tools); i++)
        LM_TRY(add_tool(&r, json_array_get(v->tools, i), i, ""));
    return read_choice(v, warnings, e);
}
