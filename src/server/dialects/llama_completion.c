/* POST /completion and /infill, llama.cpp-compatible: their fields, and how prompts are read. Read from
 * `answer` upwards. */
#include <stdlib.h>
#include <string.h>

#include "server/ask/fim.h"
#include "server/dialects/native.h"
#include "server/dialects/routes.h"

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(lm_native_turn, field)

static const lm_field prompt_fields[] = {
    { "prompt", LM_FIELD_ANY, B(prompt), 0, 0, NULL, true,
      "string, array of token ids and strings, or object with prompt_string; or array of those: one "
      "answer per element" },
    { 0 },
};

static const lm_field infill_fields[] = {
    { "input_prefix", LM_FIELD_STRING, V(prefix), 0, 0, NULL, false, "text before the missing part" },
    { "input_suffix", LM_FIELD_STRING, V(suffix), 0, 0, NULL, false, "text after the missing part" },
    { "input_extra", LM_FIELD_ARRAY, V(extra), 0, 0, NULL, false,
      "other files, objects with filename and text" },
    { "prompt", LM_FIELD_STRING, V(middle), 0, 0, NULL, false, "start of the missing part" },
    { 0 },
};

static const lm_field native_fields[] = {
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "n_predict", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false,
      "maximum number of tokens to generate; -1: until the context is full" },
    { "max_tokens", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false, "OpenAI's name of n_predict" },
    { "n_probs", LM_FIELD_U32, V(n_probs), 0, 20, NULL, false,
      "number of most probable tokens returned per position" },
    { "n", LM_FIELD_U32, T(n), 1, 8, NULL, false, "number of outputs per prompt" },
    { "n_cmpl", LM_FIELD_U32, T(n), 1, 8, NULL, false, "llama.cpp's name of n" },
    { "cache_prompt", LM_FIELD_BOOL, T(cache_prompt), 0, 0, NULL, false, "use the prefix cache (true)" },
    { "return_tokens", LM_FIELD_BOOL, V(return_tokens), 0, 0, NULL, false,
      "also return the ids of the output" },
    { "response_fields", LM_FIELD_ARRAY, V(fields), 0, 0, NULL, false,
      "members of the answer to return, by paths as generation_settings/n_predict; empty: all" },
    { 0 },
};
#define SHARED_GROUPS                                                       \
    { native_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_trace_fields, 0 }, \
        { lm_constraints_fields, T(constraints) }

static const lm_field_group native_groups[] = { { prompt_fields, 0 }, SHARED_GROUPS, { 0 } };
static const lm_field_group infill_groups[] = { { infill_fields, 0 }, SHARED_GROUPS, { 0 } };

static void native_defaults(const lm_service *s, void *values)
{
    lm_turn_defaults(s, values);
}

static lm_status check_fields(const json_t *fields, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_LIMIT_ID_PATHS, json_array_size(fields), e));
    for (size_t i = 0; i < json_array_size(fields); i++)
        if (!json_is_string(json_array_get(fields, i)))
            return lm_fail(e, LM_USAGE, "response_fields", LM_NO_OFFSET, "element %zu must be a string", i);
    return LM_OK;
}

static lm_status read_native(lm_call *c, lm_turn *t, lm_error *e)
{
    return lm_prompts_read(c->service, t->body.prompt, LM_LIMIT_ID_PROMPTS, &t->prompts, e);
}

static lm_status read_infill(lm_call *c, lm_turn *t, lm_error *e)
{
    const lm_native_turn *v = (const lm_native_turn *)t;
    const lm_fim m = { .prefix = v->prefix, .suffix = v->suffix, .extra = v->extra, .begun = v->middle };
    lm_tokens *prompt;

    LM_TRY(lm_fim_check(&m, "input_extra", e));
    if (!lm_fim_supported(c->service))
        return lm_fault(c, e, 501, NULL,
                        "the model does not support infilling: its vocabulary has no tokens for it");
    LM_TRY(lm_prompts_one(&t->prompts, &prompt, e));
    return lm_fim_prompt(c->service, &m, prompt, e);
}

static lm_status answer(lm_call *c, lm_status (*read)(lm_call *c, lm_turn *t, lm_error *e), lm_error *e)
{
    lm_native_turn *v = c->values;
    lm_turn *t = &v->turn;

    lm_turn_begin(c, t, &lm_native_writer);
    t->read = read;
    t->prompt_only = !t->max_tokens;
    t->logprobs = v->n_probs || v->return_tokens;
    t->top_logprobs = v->n_probs;
    LM_TRY(check_fields(v->fields, e));
    return lm_turn_answer(c, t, e);
}

static lm_status answer_native(lm_call *c, lm_error *e)
{
    return answer(c, read_native, e);
}

static lm_status answer_infill(lm_call *c, lm_error *e)
{
    return answer(c, read_infill, e);
}

const lm_route lm_route_completion = {
    .method = "POST", .path = "/completion", .also = "/completions", .dialect = LM_DIALECT_NATIVE,
    .summary = "continue a text, llama.cpp-compatible",
    .groups = native_groups, .values_size = sizeof(lm_native_turn), .defaults = native_defaults,
    .handle = answer_native,
};
const lm_route lm_route_infill = {
    .method = "POST", .path = "/infill", .dialect = LM_DIALECT_NATIVE,
    .summary = "fill in the missing middle of a text, if the model has tokens for it",
    .groups = infill_groups, .values_size = sizeof(lm_native_turn), .defaults = native_defaults,
    .handle = answer_infill,
};
