/* openai_responses.c - POST /v1/responses and /v1/responses/input_tokens: their fields, and how a list of
 * items is read. Read from answer_responses upwards. */
#include <string.h>

#include "server/dialects/responses.h"
#include "server/dialects/routes.h"

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(lm_response_turn, field)

static const char *const automatic[] = { "auto", "default", NULL }, *const disabled[] = { "disabled", NULL };

static const lm_field response_fields[] = {
    { "input", LM_FIELD_ANY, V(input), 0, 0, NULL, true,
      "a string, or an array of items: messages, also those of earlier answers" },
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "instructions", LM_FIELD_STRING, V(instructions), 0, 0, NULL, false,
      "system message; system messages among the items are added to it" },
    { "max_output_tokens", LM_FIELD_I64, V(max_output_tokens), 1, 1e9, NULL, false,
      "maximum number of tokens to generate" },
    { "text", LM_FIELD_OBJECT, V(text), 0, 0, NULL, false,
      "format: type text, json_object or json_schema (with schema)" },
    { "tools", LM_FIELD_ARRAY, V(tools), 0, 0, NULL, false,
      "tools that the client runs: function, custom (also with a grammar), namespace, local_shell; web_search "
      "and image_generation are ignored with a warning" },
    { "tool_choice", LM_FIELD_ANY, V(tool_choice), 0, 0, NULL, false,
      "none, auto, required, the tool to call, or allowed_tools" },
    { "parallel_tool_calls", LM_FIELD_BOOL, T(parallel_calls), 0, 0, NULL, false,
      "allow several tool calls in one answer (true)" },
    { "include", LM_FIELD_ARRAY, V(include), 0, 0, NULL, false,
      "reasoning.encrypted_content is accepted and has no effect" },
    { "metadata", LM_FIELD_OBJECT, V(metadata), 0, 0, NULL, false, "returned unchanged" },
    { "store", LM_FIELD_BOOL, V(store), 0, 0, NULL, false,
      "store the answer for GET /v1/responses/{id} and previous_response_id (true)" },
    { "previous_response_id", LM_FIELD_STRING, V(previous), 0, 0, NULL, false,
      "id of a stored response; its input and output, and those of all responses before it, precede the "
      "input" },
    LM_REFUSED("conversation", "conversations are not stored: send the items again"),
    LM_REFUSED("background", "responses are not generated in the background"),
    LM_REFUSED("prompt", "prompts are not stored"),
    { "truncation", LM_FIELD_REFUSED, 0, 0, 0, disabled, false, "nothing is left out of a prompt" },
    LM_REFUSED("top_logprobs", "use /v1/chat/completions"),
    LM_REFUSED("logprobs", "use /v1/chat/completions"),
    { "n", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "use /v1/chat/completions" },
    { "service_tier", LM_FIELD_REFUSED, 0, 0, 0, automatic, false, "there is one" },
    { "reasoning", LM_FIELD_OBJECT, V(reasoning), 0, 0, NULL, false,
      "effort: none, minimal, low, medium, high, xhigh or max, if the chat template supports it" },
    LM_IGNORED("max_tool_calls"), LM_IGNORED("stream_options"), LM_IGNORED("user"),
    LM_IGNORED("safety_identifier"), LM_IGNORED("client_metadata"),
    LM_IGNORED("prompt_cache_key"), LM_IGNORED("prompt_cache_retention"),
    { 0 },
};

static const lm_field_group response_groups[] = {
    { response_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_no_trace_fields, 0 },
    { lm_constraints_fields, T(constraints) }, { 0 },
};

static void response_defaults(const lm_service *s, void *values)
{
    lm_response_turn *v = values;

    lm_turn_defaults(s, &v->turn);
    v->store = true;
}

/* ---- reading the request ---- */

static lm_status check_reasoning(const lm_response_turn *v, json_t *warnings, lm_error *e)
{
    const json_t *effort = json_object_get(v->reasoning, "effort"),
                 *summary = json_object_get(v->reasoning, "summary");

    if (effort && !json_is_null(effort) && !json_is_string(effort))
        return lm_fail(e, LM_USAGE, "reasoning", LM_NO_OFFSET, "effort must be a string");
    if (summary && !json_is_null(summary))
        lm_field_warn(warnings, "reasoning: summary has no effect: all of the reasoning is returned");
    return LM_OK;
}

static lm_status check_include(const lm_response_turn *v, json_t *warnings, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(v->include); i++) {
        const char *name = json_string_value(json_array_get(v->include, i));

        if (!name || strcmp(name, "message.output_text.logprobs") == 0)
            return lm_fail(e, LM_USAGE, "include", LM_NO_OFFSET, "'include' does not support \"%.60s\"",
                           name ? name : "an element that is no string");
        lm_field_warn(warnings, "include: %.60s has no effect", name);
    }
    return LM_OK;
}

/* Convert text.format, {type, name, schema, strict}, to the form of /v1/chat/completions. */
static lm_status read_format(lm_response_turn *v, lm_error *e)
{
    json_t *format = json_object_get(v->text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));

    if (!format || json_is_null(format) || (json_is_object(format) && !json_object_size(format)))
        return LM_OK;
    if (!type || (strcmp(type, "text") && strcmp(type, "json_object") && strcmp(type, "json_schema")))
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET,
                       "'text.format' has the unknown type \"%.40s\": expected text, json_object or "
                       "json_schema",
                       type ? type : "");
    if (v->turn.constraints.response_format)
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET,
                       "'text.format' cannot be combined with response_format");
    if (strcmp(type, "json_schema") == 0 && !json_object_get(format, "schema"))
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET, "'text.format' requires a schema");
    json_t *made = json_pack("{s:s, s:O}", "type", type, "json_schema", format);
    if (!(v->turn.constraints.response_format = lm_turn_keep(&v->turn, made)))
        return lm_fail_memory(e, "the format", 0);
    v->turn.aliases[2] = (lm_field_alias){ "response_format", "text.format" };
    return LM_OK;
}

/* Return the input after the items of the previous responses. *out NULL: there is no previous response, or
 * the input is malformed. */
static lm_status whole_input(lm_call *c, json_t **out, lm_error *e)
{
    const lm_response_turn *v = c->values;
    lm_status status;

    if (!v->previous)
        return LM_OK;
    if (json_is_string(v->input))
        *out = json_pack("[{s:s, s:O}]", "role", "user", "content", v->input);
    else
        *out = json_is_array(v->input) && json_array_size(v->input) ? json_copy(v->input) : NULL;
    if (!*out)
        return LM_OK;                                /* lm_response_messages reports what is wrong with it */
    status = lm_response_before(c, v->previous, *out, e);
    if (status != LM_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

static lm_status read_response(lm_call *c, lm_turn *t, lm_error *e)
{
    lm_response_turn *v = (lm_response_turn *)t;
    json_t *whole = NULL, *messages = NULL;
    lm_status status;

    t->continue_final = true;
    t->body.effort = json_string_value(json_object_get(v->reasoning, "effort"));
    t->reasoning_field = "reasoning";
    LM_TRY(check_reasoning(v, c->warnings, e));
    LM_TRY(check_include(v, c->warnings, e));
    lm_field_warn_members(c->warnings, "text", v->text, "format");
    lm_field_warn_members(c->warnings, "reasoning", v->reasoning, "effort summary");
    LM_TRY(whole_input(c, &whole, e));
    status = lm_response_messages(v->instructions, whole ? whole : v->input, c->warnings, &messages, e);
    json_decref(whole);
    LM_TRY(status);
    t->body.messages = lm_turn_keep(t, messages);
    return lm_response_tools(v, c->warnings, e);
}

/* ---- routes ---- */

static lm_turn *begin(lm_call *c)
{
    lm_turn *t = c->values;

    lm_turn_begin(c, t, &lm_response_writer);
    t->read = read_response;
    t->aliases[0] = (lm_field_alias){ "messages", "input" };
    t->aliases[1] = (lm_field_alias){ "prompt", "input" };
    return t;
}

static lm_status answer_responses(lm_call *c, lm_error *e)
{
    lm_turn *t = begin(c);
    lm_response_turn *v = c->values;

    LM_TRY(read_format(v, e));
    if (v->max_output_tokens)
        t->max_tokens = v->max_output_tokens;
    return lm_turn_answer(c, t, e);
}

static lm_status answer_input_tokens(lm_call *c, lm_error *e)
{
    json_int_t n;

    LM_TRY(lm_turn_count(c, begin(c), &n, e));
    return lm_answer_json(c, json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", n),
                          e);
}

const lm_route lm_route_responses = {
    .method = "POST", .path = "/v1/responses", .also = "/responses", .dialect = LM_DIALECT_OPENAI,
    .summary = "answer a list of items",
    .groups = response_groups, .values_size = sizeof(lm_response_turn), .defaults = response_defaults,
    .handle = answer_responses,
};
const lm_route lm_route_response_tokens = {
    .method = "POST", .path = "/v1/responses/input_tokens", .also = "/responses/input_tokens",
    .dialect = LM_DIALECT_OPENAI,
    .summary = "count the tokens of items",
    .groups = response_groups, .values_size = sizeof(lm_response_turn), .defaults = response_defaults,
    .handle = answer_input_tokens,
};
