/* anthropic.c - POST /v1/messages and /v1/messages/count_tokens, Anthropic-compatible: their fields, and how
 * they are read. Read from answer_messages upwards. */
#include <math.h>
#include <string.h>

#include "server/dialects/anthropic.h"
#include "server/dialects/routes.h"

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(lm_message_turn, field)

/* The fields that determine the prompt. */
#define PROMPT_FIELDS                                                                                       \
    { "messages", LM_FIELD_ARRAY, B(messages), 0, 0, NULL, true, "the conversation" },                      \
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false,                                                \
      "a name of /v1/models; any name if the server has one model" },                                       \
    { "system", LM_FIELD_ANY, V(system), 0, 0, NULL, false,                                                 \
      "system message: string, or array of text blocks" },                                                  \
    { "tools", LM_FIELD_ARRAY, B(tools), 0, 0, NULL, false,                                                 \
      "functions that may be called: name, description, input_schema" },                                    \
    { "tool_choice", LM_FIELD_OBJECT, B(tool_choice), 0, 0, NULL, false,                                    \
      "type auto, any, tool (with name) or none; disable_parallel_tool_use: one call" },                    \
    { "thinking", LM_FIELD_OBJECT, V(thinking), 0, 0, NULL, false,                                          \
      "type enabled, disabled or adaptive; budget_tokens: maximum number of reasoning tokens" },            \
    { "output_config", LM_FIELD_OBJECT, V(output_config), 0, 0, NULL, false,                                \
      "effort: low, medium, high; format: type json_schema, and a schema that the output matches" }

static const lm_field message_fields[] = {
    PROMPT_FIELDS,
    { "max_tokens", LM_FIELD_I64, T(max_tokens), 1, 1e9, NULL, true, "maximum number of tokens to generate" },
    { "stop_sequences", LM_FIELD_ARRAY, V(stops), 0, 0, NULL, false, "strings that end the output" },
    { "output_format", LM_FIELD_OBJECT, V(output_format), 0, 0, NULL, false,
      "older name of output_config.format" },
    LM_REFUSED("mcp_servers", "the server calls no tools"),
    LM_REFUSED("container", "the server runs no code"),
    LM_IGNORED("metadata"), LM_IGNORED("cache_control"), LM_IGNORED("context_management"),
    { 0 },
};
static const lm_field count_fields[] = { PROMPT_FIELDS, { 0 } };
static const lm_field_group message_groups[] = {
    { message_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_no_trace_fields, 0 },
    { lm_constraints_fields, T(constraints) }, { 0 },
};
static const lm_field_group count_groups[] = { { count_fields, 0 }, { 0 } };

static void message_defaults(const lm_service *s, void *values)
{
    lm_turn_defaults(s, values);
}

/* ---- reading the request ---- */

/* Read `thinking`, {type: enabled | disabled | adaptive, budget_tokens}, and the effort of output_config. */
static lm_status read_thinking(const lm_message_turn *v, lm_turn *t, lm_error *e)
{
    const char *type = json_string_value(json_object_get(v->thinking, "type"));
    const json_t *budget = json_object_get(v->thinking, "budget_tokens"),
                 *effort = json_object_get(v->output_config, "effort");

    if (effort && !json_is_null(effort) && !(t->body.effort = json_string_value(effort)))
        return lm_fail(e, LM_USAGE, "output_config", LM_NO_OFFSET, "effort must be a string");
    if (t->body.effort)
        t->reasoning_field = "output_config";
    if (!json_object_size(v->thinking))
        return LM_OK;
    t->reasoning_field = "thinking";
    if (!type || (strcmp(type, "enabled") && strcmp(type, "disabled") && strcmp(type, "adaptive")))
        return lm_fail(e, LM_USAGE, "thinking", LM_NO_OFFSET,
                       "the type \"%.40s\" is unknown: expected enabled, disabled or adaptive",
                       type ? type : "");
    if (json_is_null(budget))
        budget = NULL;
    double tokens = json_number_value(budget);
    if (budget && !(tokens >= 1 && tokens <= 1e9 && tokens == floor(tokens)))
        return lm_fail(e, LM_USAGE, "thinking", LM_NO_OFFSET,
                       "budget_tokens must be an integer from 1 to 1000000000");
    t->thinking = strcmp(type, "disabled") == 0 ? LM_THINKING_OFF : LM_THINKING_ON;
    if (budget && t->thinking == LM_THINKING_ON)
        t->reasoning_budget = (int64_t)tokens;
    return LM_OK;
}

static lm_status read_messages(lm_call *c, lm_turn *t, lm_error *e)
{
    const lm_message_turn *v = (const lm_message_turn *)t;
    json_t *messages;

    t->continue_final = true;
    t->reasoning_field = "thinking";
    LM_TRY(read_thinking(v, t, e));
    lm_field_warn_members(c->warnings, "thinking", v->thinking, "type budget_tokens display");
    if (json_object_get(v->thinking, "display"))
        lm_field_warn(c->warnings, "thinking.display has no effect: all reasoning is returned");
    lm_field_warn_members(c->warnings, "output_config", v->output_config, "effort format");
    LM_TRY(lm_anthropic_messages(v->system, t->body.messages, c->warnings, &messages, e));
    t->body.messages = lm_turn_keep(t, messages);
    return t->body.messages ? LM_OK : lm_fail_memory(e, "the conversation", 0);
}

static void add_alias(lm_turn *t, const char *field, const char *sent)
{
    size_t n = 0;

    while (t->aliases[n].field)
        n++;
    t->aliases[n] = (lm_field_alias){ field, sent };
}

/* Convert output_config, {format: {type: json_schema, schema}}, or output_format to the form of
 * response_format. */
static lm_status read_format(lm_message_turn *v, lm_error *e)
{
    json_t *given = json_object_get(v->output_config, "format");
    const char *field = given && !json_is_null(given) ? "output_config" : "output_format";

    if (!given || json_is_null(given))
        given = v->output_format;
    const char *type = json_string_value(json_object_get(given, "type"));
    if (!json_object_size(given) && (!given || json_is_null(given) || json_is_object(given)))
        return LM_OK;
    if (v->turn.constraints.response_format)
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "a format cannot be combined with response_format");
    if (!type || strcmp(type, "json_schema") || !json_object_get(given, "schema"))
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET,
                       "a format must have the type json_schema and a schema");
    json_t *made = json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", given);
    if (!(v->turn.constraints.response_format = lm_turn_keep(&v->turn, made)))
        return lm_fail_memory(e, "the format", 0);
    add_alias(&v->turn, "response_format", v->output_format ? "output_format" : "output_config");
    return LM_OK;
}

/* ---- routes ---- */

static lm_turn *begin(lm_call *c)
{
    lm_turn *t = c->values;

    lm_turn_begin(c, t, &lm_anthropic_writer);
    t->read = read_messages;
    add_alias(t, "prompt", "messages");
    return t;
}

static lm_status answer_messages(lm_call *c, lm_error *e)
{
    lm_turn *t = begin(c);
    lm_message_turn *v = c->values;

    if (v->stops && (json_string_length(t->body.stop) || json_array_size(t->body.stop)) &&
        !json_equal(v->stops, t->body.stop))
        return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET,
                       "'stop' and 'stop_sequences' have the same meaning and different values");
    if (v->stops) {
        t->body.stop = v->stops;
        add_alias(t, "stop", "stop_sequences");
    }
    LM_TRY(read_format(v, e));
    return lm_turn_answer(c, t, e);
}

static lm_status answer_count(lm_call *c, lm_error *e)
{
    json_int_t n;

    LM_TRY(lm_turn_count(c, begin(c), &n, e));
    return lm_answer_json(c, json_pack("{s:I}", "input_tokens", n), e);
}

const lm_route lm_route_messages = {
    .method = "POST", .path = "/v1/messages", .dialect = LM_DIALECT_ANTHROPIC,
    .summary = "answer a conversation, Anthropic-compatible",
    .groups = message_groups, .values_size = sizeof(lm_message_turn), .defaults = message_defaults,
    .handle = answer_messages,
};
const lm_route lm_route_count_tokens = {
    .method = "POST", .path = "/v1/messages/count_tokens", .dialect = LM_DIALECT_ANTHROPIC,
    .summary = "count conversation tokens",
    .groups = count_groups, .values_size = sizeof(lm_message_turn), .defaults = message_defaults,
    .handle = answer_count,
};
