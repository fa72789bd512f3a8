/* POST /v1/responses and /v1/responses/input_tokens. */
#include <string.h>

#include "server/dialects/responses.h"
#include "server/dialects/routes.h"

#define V(field) offsetof(lm_response_values, field)

static const char *const automatic[] = { "auto", NULL }, *const disabled[] = { "disabled", NULL };

static const lm_field response_fields[] = {
    { "input", LM_FIELD_ANY, V(input), 0, 0, NULL, true, "a string, or an array of items: messages, also those of earlier answers" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; any name if the server has one model" },
    { "instructions", LM_FIELD_STRING, V(instructions), 0, 0, NULL, false, "system message; system messages among the items are added to it" },
    { "max_output_tokens", LM_FIELD_I64, V(max_output_tokens), 1, 1e9, NULL, false, "maximum number of tokens to generate" },
    { "text", LM_FIELD_OBJECT, V(text), 0, 0, NULL, false, "format: type text, json_object or json_schema (with schema)" },
    { "tools", LM_FIELD_ARRAY, V(tools), 0, 0, NULL, false, "functions that may be called: type function, name, description, parameters; other types are ignored with a warning" },
    { "tool_choice", LM_FIELD_ANY, V(tool_choice), 0, 0, NULL, false, "none, auto, required, the function to call, or allowed_tools" },
    { "parallel_tool_calls", LM_FIELD_BOOL, V(parallel_tool_calls), 0, 0, NULL, false,
      "allow several tool calls in one answer (true)" },
    { "include", LM_FIELD_ARRAY, V(include), 0, 0, NULL, false, "reasoning.encrypted_content is accepted and has no effect" },
    { "metadata", LM_FIELD_OBJECT, V(metadata), 0, 0, NULL, false, "returned unchanged" },
    { "store", LM_FIELD_BOOL, V(store), 0, 0, NULL, false, "store the answer for GET /v1/responses/{id} and previous_response_id (true)" },
    { "previous_response_id", LM_FIELD_STRING, V(previous), 0, 0, NULL, false,
      "id of a stored response; its input and output, and those of all responses before it, precede the input" },
    { "conversation", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "conversations are not stored: send the items again" },
    { "background", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "an answer is given to who waits for it" },
    { "prompt", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "prompts are not stored" },
    { "truncation", LM_FIELD_REFUSED, 0, 0, 0, disabled, false, "nothing is left out of a prompt" },
    { "top_logprobs", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use /v1/chat/completions" },
    { "service_tier", LM_FIELD_REFUSED, 0, 0, 0, automatic, false, "there is one" },
    { "reasoning", LM_FIELD_OBJECT, V(reasoning), 0, 0, NULL, false,
      "effort: none, minimal, low, medium, high, xhigh or max, if the chat template supports it" },
    { "max_tool_calls", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "stream_options", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "user", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "safety_identifier", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "prompt_cache_key", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "prompt_cache_retention", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { 0 },
};

static const lm_field_group response_groups[] = { { response_fields, 0 }, { lm_asked_fields, V(asked) },
        { lm_allowed_fields, V(asked.limits) }, { 0 } };

static void response_defaults(const lm_service *s, void *values)
{
    lm_response_values *v = values;

    lm_asked_defaults(s, &v->asked);
    v->parallel_tool_calls = true;
    v->store = true;
}

/* ---- what is asked ---- */

/* Functions of `list`. Tools of other types are ones that a client does not expect to be called everywhere: left out. */
static lm_status functions_of(const json_t *list, const char *field, json_t *warnings, json_t **out, lm_error *e)
{
    *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(list, i), "type"));

        if (!type)
            return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "element %zu: expected an object with a type", i);
        if (strcmp(type, "function") == 0)
            json_array_append(*out, json_array_get(list, i));
        else
            json_array_append_new(warnings, json_sprintf("%s: element %zu of type %.40s is left out", field, i, type));
    }
    return LM_OK;
}

/* What may be called, in the words that lm_tools_read knows. *tools and *choice are the caller's, also on failure. */
static lm_status read_tools(const lm_response_values *v, json_t *warnings, json_t **tools, json_t **choice, lm_error *e)
{
    const char *type = json_string_value(json_object_get(v->tool_choice, "type"));
    json_t *list = json_object_get(v->tool_choice, "tools"), *allowed = NULL;
    lm_status status = functions_of(v->tools, "tools", warnings, tools, e);

    *choice = v->tool_choice ? json_copy(v->tool_choice) : NULL;
    if (status == LM_OK && type && strcmp(type, "allowed_tools") == 0) {
        status = functions_of(list, "tool_choice", warnings, &allowed, e);
        json_object_set_new(*choice, "tools", allowed);
    }
    return status;
}

static const char *effort_of(const lm_response_values *v)
{
    return json_string_value(json_object_get(v->reasoning, "effort"));
}

static lm_status check_reasoning(const lm_response_values *v, json_t *warnings, lm_error *e)
{
    const json_t *effort = json_object_get(v->reasoning, "effort"), *summary = json_object_get(v->reasoning, "summary");

    if (effort && !json_is_null(effort) && !json_is_string(effort))
        return lm_fail(e, LM_USAGE, "reasoning", LM_NO_OFFSET, "effort is a string");
    if (summary && !json_is_null(summary))
        json_array_append_new(warnings, json_string("reasoning: summary has no effect, the whole text is told"));
    return LM_OK;
}

static lm_status check_include(const lm_response_values *v, json_t *warnings, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(v->include); i++) {
        const char *name = json_string_value(json_array_get(v->include, i));

        if (!name || strcmp(name, "message.output_text.logprobs") == 0)
            return lm_fail(e, LM_USAGE, "include", LM_NO_OFFSET, "not supported: %.60s", name ? name : "an element that is no string");
        json_array_append_new(warnings, json_sprintf("include: %.60s has no effect", name));
    }
    return LM_OK;
}

/* {type, name, schema, strict} as chat/completions has it. *out may be NULL: any text. */
static lm_status read_format(const lm_response_values *v, json_t **out, lm_error *e)
{
    json_t *format = json_object_get(v->text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));

    *out = NULL;
    if (!format || json_is_null(format))
        return LM_OK;
    if (!type || (strcmp(type, "text") && strcmp(type, "json_object") && strcmp(type, "json_schema")))
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET, "unknown type \"%.40s\": expected text, json_object or json_schema",
                       type ? type : "");
    if (v->asked.limits.response_format)
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET, "only one of text.format and response_format at a time");
    if (strcmp(type, "json_schema") == 0 && !json_object_get(format, "schema"))
        return lm_fail(e, LM_USAGE, "text.format", LM_NO_OFFSET, "schema is missing");
    if (!(*out = json_pack("{s:s, s:O}", "type", type, "json_schema", format)))
        return lm_fail_memory(e, "the format", 0);
    return LM_OK;
}

/* What concerns a field of another dialect is said of the one that was sent. */
static lm_status in_words(lm_status status, const char *theirs, const char *ours, lm_error *e)
{
    lm_error why = *e;

    if (status == LM_OK || strcmp(why.where, theirs))
        return status;
    return lm_fail(e, status, ours, LM_NO_OFFSET, "%s", why.message);
}

/* The members of the answer that repeat the request. */
static json_t *settings_json(const lm_response_values *v)
{
    json_t *text = v->text ? json_copy(v->text) : json_object();

    if (!json_object_get(text, "format"))
        json_object_set_new(text, "format", json_pack("{s:s}", "type", "text"));
    return json_pack("{s:s?, s:o, s:o, s:b, s:o, s:o, s:f, s:f, s:s?, s:{s:s?, s:n}, s:b, s:o, s:s, s:b}", "instructions", v->instructions,
                     "max_output_tokens", v->max_output_tokens ? json_integer((json_int_t)v->max_output_tokens) : json_null(), "metadata",
                     v->metadata ? json_incref(v->metadata) : json_object(), "parallel_tool_calls", v->parallel_tool_calls, "tool_choice",
                     v->tool_choice ? json_incref(v->tool_choice) : json_string("auto"), "tools",
                     v->tools ? json_incref(v->tools) : json_array(), "temperature", (double)v->asked.sampling.temperature, "top_p",
                     (double)v->asked.sampling.top_p, "previous_response_id", v->previous, "reasoning", "effort", effort_of(v), "summary",
                     "store", v->store, "text", text, "truncation", "disabled", "background", false);
}

/* With what came before it. *out NULL: nothing did. */
static lm_status whole_input(lm_call *c, json_t **out, lm_error *e)
{
    const lm_response_values *v = c->values;
    lm_status status;

    if (!v->previous)
        return LM_OK;
    if (json_is_string(v->input))
        *out = json_pack("[{s:s, s:O}]", "role", "user", "content", v->input);
    else
        *out = json_is_array(v->input) && json_array_size(v->input) ? json_copy(v->input) : NULL;
    if (!*out)
        return LM_OK;                                /* what is wrong with it is said by who reads it */
    status = lm_response_before(c, v->previous, *out, e);
    if (status != LM_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* `o` and `parts` NULL: only the prompt is wanted. */
static lm_status read_dialogue(lm_call *c, json_t *messages, lm_turn_options *o, lm_asked_parts *parts, lm_tokens *prompt, lm_error *e)
{
    const lm_response_values *v = c->values;
    lm_dialogue d = { .messages = messages, .begin = true, .goes_on = true, .budget = -1, .effort = effort_of(v),
                      .said = "reasoning", .single = !v->parallel_tool_calls };
    lm_status status = read_tools(v, c->warnings, &d.tools, &d.choice, e);

    if (status == LM_OK)
        status = o ? lm_dialogue_prepare(c, &d, o, parts, prompt, e) : lm_dialogue_prompt(c, &d, prompt, NULL, e);
    json_decref(d.tools);
    json_decref(d.choice);
    return in_words(status, "messages", "input", e);
}

static lm_status read_prompt(lm_call *c, lm_turn_options *o, lm_asked_parts *parts, lm_tokens *prompt, lm_error *e)
{
    const lm_response_values *v = c->values;
    lm_response_values asked = *v;
    json_t *messages = NULL, *whole = NULL;
    lm_status status;

    LM_TRY(check_reasoning(v, c->warnings, e));
    LM_TRY(check_include(v, c->warnings, e));
    LM_TRY(whole_input(c, &whole, e));
    asked.input = whole ? whole : v->input;
    status = lm_response_messages(&asked, c->warnings, &messages, e);
    json_decref(whole);
    if (status != LM_OK)
        return status;
    status = read_dialogue(c, messages, o, parts, prompt, e);
    json_decref(messages);
    return status;
}

/* ---- routes ---- */

static lm_status answer_responses(lm_call *c, lm_error *e)
{
    lm_response_values *v = c->values;
    lm_turn_options o = { .n_prompts = 1, .id_prefix = "resp_" };
    lm_asked_parts parts = { 0 };
    lm_tokens prompt = { 0 };
    json_t *format = NULL;
    lm_status status = read_format(v, &format, e);

    if (v->max_output_tokens)
        v->asked.max_tokens = v->max_output_tokens;
    if (format)
        v->asked.limits.response_format = format;
    if (status == LM_OK)
        status = lm_asked_options(c, &v->asked, &o, &parts, e);
    if (status == LM_OK)
        status = read_prompt(c, &o, &parts, &prompt, e);
    status = in_words(status, "response_format", format ? "text.format" : "response_format", e);
    if (status == LM_OK && !(o.own = lm_response_own(settings_json(v), v->store ? v->input : NULL, v->previous)))
        status = lm_fail_memory(e, "the answer", 0);
    if (status == LM_OK) {
        o.prompts = &prompt;
        status = lm_turn_start(c, &o, &lm_response_writer, e);
    } else {
        lm_tools_free(o.tools);
    }
    lm_asked_free(&parts);
    lm_tokens_free(&prompt);
    json_decref(format);
    return status;
}

static lm_status answer_input_tokens(lm_call *c, lm_error *e)
{
    lm_tokens prompt = { 0 };
    lm_status status = read_prompt(c, NULL, NULL, &prompt, e);
    json_int_t n = (json_int_t)prompt.n;

    lm_tokens_free(&prompt);
    return status == LM_OK ? lm_answer_json(c, json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", n), e) : status;
}

const lm_route lm_route_responses = { "POST", "/v1/responses", "/responses", 0, LM_DIALECT_OPENAI, "answer a list of items",
                                      response_groups,
                                      sizeof(lm_response_values), response_defaults, answer_responses };
const lm_route lm_route_response_tokens = { "POST", "/v1/responses/input_tokens", "/responses/input_tokens", 0, LM_DIALECT_OPENAI,
                                            "count the tokens of items", response_groups, sizeof(lm_response_values), response_defaults,
                                            answer_input_tokens };
