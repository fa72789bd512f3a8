/* POST /v1/messages and /v1/messages/count_tokens, Anthropic-compatible. */
#include <math.h>
#include <string.h>

#include "server/dialects/anthropic.h"
#include "server/dialects/routes.h"

typedef struct message_values {
    lm_params    params;
    const char *model;
    json_t     *messages, *system, *stops, *tools, *tool_choice, *thinking, *output_config, *output_format;
    int64_t     max_tokens;
} message_values;

#define V(field) offsetof(message_values, field)

/* The fields that determine the prompt. */
#define PROMPT_FIELDS                                                                                                             \
    { "messages", LM_FIELD_ARRAY, V(messages), 0, 0, NULL, true, "the conversation" },                                            \
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; any name if the server has one model" },      \
    { "system", LM_FIELD_ANY, V(system), 0, 0, NULL, false, "system message: string, or array of text blocks" },                  \
    { "tools", LM_FIELD_ARRAY, V(tools), 0, 0, NULL, false, "functions that may be called: name, description, input_schema" },    \
    { "tool_choice", LM_FIELD_OBJECT, V(tool_choice), 0, 0, NULL, false,                                                          \
      "type auto, any, tool (with name) or none; disable_parallel_tool_use: one call" },                                          \
    { "thinking", LM_FIELD_OBJECT, V(thinking), 0, 0, NULL, false,                                                                \
      "type enabled, disabled or adaptive; budget_tokens: maximum number of reasoning tokens" },                                  \
    { "output_config", LM_FIELD_OBJECT, V(output_config), 0, 0, NULL, false,                                                      \
      "effort: low, medium, high; format: type json_schema, and a schema that the output matches" }

static const lm_field message_fields[] = {
    PROMPT_FIELDS,
    { "max_tokens", LM_FIELD_I64, V(max_tokens), 1, 1e9, NULL, true, "maximum number of tokens to generate" },
    { "stop_sequences", LM_FIELD_ARRAY, V(stops), 0, 0, NULL, false, "strings that end the output" },
    { "output_format", LM_FIELD_OBJECT, V(output_format), 0, 0, NULL, false, "older name of output_config.format" },
    LM_REFUSED("mcp_servers", "the server calls no tools"), LM_REFUSED("container", "the server runs no code"),
    LM_HARMLESS("metadata"), LM_HARMLESS("cache_control"),
    { 0 },
};
static const lm_field count_fields[] = { PROMPT_FIELDS, { 0 } };
static const lm_field_group message_groups[] = { { message_fields, 0 }, { lm_params_fields, V(params) }, { lm_params_untraced, V(params) },
        { lm_constraints_fields, V(params.constraints) }, { 0 } }, count_groups[] = { { count_fields, 0 }, { 0 } };

static void message_defaults(const lm_service *s, void *values)
{
    lm_params_defaults(s, &((message_values *)values)->params);
}

/* ---- reading the request ---- */

/* Read `thinking`, {type: enabled | disabled | adaptive, budget_tokens}, and the effort of output_config. */
static lm_status read_thinking(const message_values *v, lm_dialogue *d, lm_error *e)
{
    const char *type = json_string_value(json_object_get(v->thinking, "type"));
    const json_t *budget = json_object_get(v->thinking, "budget_tokens"), *effort = json_object_get(v->output_config, "effort");

    if (effort && !json_is_null(effort) && !(d->effort = json_string_value(effort)))
        return lm_fail(e, LM_USAGE, "output_config", LM_NO_OFFSET, "effort must be a string");
    if (d->effort)
        d->field = "output_config";
    if (!json_object_size(v->thinking))
        return LM_OK;
    d->field = "thinking";
    if (!type || (strcmp(type, "enabled") && strcmp(type, "disabled") && strcmp(type, "adaptive")))
        return lm_fail(e, LM_USAGE, "thinking", LM_NO_OFFSET, "the type \"%.40s\" is unknown: expected enabled, disabled or adaptive",
                       type ? type : "");
    if (json_is_null(budget))
        budget = NULL;
    double tokens = json_number_value(budget);
    if (budget && !(tokens >= 1 && tokens <= 1e9 && tokens == floor(tokens)))
        return lm_fail(e, LM_USAGE, "thinking", LM_NO_OFFSET, "budget_tokens must be an integer from 1 to 1000000000");
    d->thinking = strcmp(type, "disabled") == 0 ? LM_THINKING_OFF : LM_THINKING_ON;
    if (budget && d->thinking == LM_THINKING_ON)
        d->budget = (int64_t)tokens;
    return LM_OK;
}

static lm_status read_messages(lm_call *c, lm_ask *a, lm_error *e)
{
    const message_values *v = c->values;

    a->dialogue = (lm_dialogue){ .tools = json_incref(v->tools), .choice = json_incref(v->tool_choice), .begin = true, .goes_on = true,
                                 .budget = -1, .field = "thinking" };
    LM_TRY(read_thinking(v, &a->dialogue, e));
    lm_field_warn_members(c->warnings, "thinking", v->thinking, "type budget_tokens");
    lm_field_warn_members(c->warnings, "output_config", v->output_config, "effort format");
    return lm_anthropic_messages(v->system, v->messages, c->warnings, &a->dialogue.messages, e);
}

/* Convert output_config, {format: {type: json_schema, schema}}, or output_format to the form of response_format. */
static lm_status read_format(message_values *v, json_t **format, lm_error *e)
{
    json_t *given = json_object_get(v->output_config, "format");
    const char *field = given && !json_is_null(given) ? "output_config" : "output_format";

    *format = NULL;
    if (!given || json_is_null(given))
        given = v->output_format;
    const char *type = json_string_value(json_object_get(given, "type"));
    if (!json_object_size(given) && (!given || json_is_null(given) || json_is_object(given)))
        return LM_OK;
    if (v->params.constraints.response_format)
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "a format cannot be combined with response_format");
    if (!type || strcmp(type, "json_schema") || !json_object_get(given, "schema"))
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "a format must have the type json_schema and a schema");
    *format = json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", given);
    v->params.constraints.response_format = *format;
    return *format ? LM_OK : lm_fail_memory(e, "the format", 0);
}

/* ---- routes ---- */

static lm_status answer_messages(lm_call *c, lm_error *e)
{
    message_values *v = c->values;
    lm_ask a = { .params = &v->params, .id_prefix = "msg_", .aliases = { { "prompt", "messages" } }, .read = read_messages };
    json_t *format;
    size_t n = 1;
    lm_status status;

    if (v->stops && (json_string_length(v->params.stop) || json_array_size(v->params.stop)) && !json_equal(v->stops, v->params.stop))
        return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET, "'stop' and 'stop_sequences' have the same meaning and different values");
    LM_TRY(read_format(v, &format, e));
    if (v->stops)
        a.aliases[n++] = (lm_field_alias){ "stop", "stop_sequences" };
    if (format)
        a.aliases[n++] = (lm_field_alias){ "response_format", v->output_format ? "output_format" : "output_config" };
    if (v->stops)
        v->params.stop = v->stops;
    v->params.max_tokens = v->max_tokens;
    status = lm_ask_answer(c, &a, &lm_anthropic_writer, e);
    json_decref(format);
    return status;
}

static lm_status answer_count(lm_call *c, lm_error *e)
{
    lm_ask a = { .aliases = { { "prompt", "messages" } }, .read = read_messages };
    json_int_t n;

    LM_TRY(lm_ask_count(c, &a, &n, e));
    return lm_answer_json(c, json_pack("{s:I}", "input_tokens", n), e);
}

const lm_route lm_route_messages = { "POST", "/v1/messages", NULL, 0, LM_DIALECT_ANTHROPIC, "answer a conversation, Anthropic-compatible",
                                     message_groups, sizeof(message_values), message_defaults, answer_messages, NULL };
const lm_route lm_route_count_tokens = { "POST", "/v1/messages/count_tokens", NULL, 0, LM_DIALECT_ANTHROPIC, "count conversation tokens",
        count_groups,
                                         sizeof(message_values), message_defaults, answer_count, NULL };
