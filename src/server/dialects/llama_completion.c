/* POST /completion and /infill, llama.cpp-compatible. */
#include <stdlib.h>
#include <string.h>

#include "server/dialects/native.h"
#include "server/ask/middle.h"
#include "server/dialects/routes.h"

typedef struct native_values {
    lm_params params;
    const char *model;
    const char *prefix, *suffix, *middle;        /* of /infill */
    json_t  *extra;
    json_t  *prompt, *fields;
    int64_t  n_predict;
    uint32_t n_probs, n;
    bool     cache_prompt, return_tokens;
} native_values;

#define V(field) offsetof(native_values, field)

static const lm_field prompt_fields[] = {
    { "prompt", LM_FIELD_ANY, V(prompt), 0, 0, NULL, true,
      "string, array of token ids and strings, or object with prompt_string; or array of those: one answer per element" },
    { 0 },
};

static const lm_field middle_fields[] = {
    { "input_prefix", LM_FIELD_STRING, V(prefix), 0, 0, NULL, false, "text before the missing part" },
    { "input_suffix", LM_FIELD_STRING, V(suffix), 0, 0, NULL, false, "text after the missing part" },
    { "input_extra", LM_FIELD_ARRAY, V(extra), 0, 0, NULL, false, "other files, objects with filename and text" },
    { "prompt", LM_FIELD_STRING, V(middle), 0, 0, NULL, false, "start of the missing part" },
    { 0 },
};

static const lm_field native_fields[] = {
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; any name if the server has one model" },
    { "n_predict", LM_FIELD_I64, V(n_predict), -1, 1e9, NULL, false, "maximum number of tokens to generate; -1: until the context is full" },
    { "max_tokens", LM_FIELD_I64, V(n_predict), -1, 1e9, NULL, false, "OpenAI's name of n_predict" },
    { "n_probs", LM_FIELD_U32, V(n_probs), 0, 20, NULL, false, "number of most probable tokens returned per position" },
    { "n", LM_FIELD_U32, V(n), 1, 8, NULL, false, "number of outputs per prompt" },
    { "n_cmpl", LM_FIELD_U32, V(n), 1, 8, NULL, false, "llama.cpp's name of n" },
    { "cache_prompt", LM_FIELD_BOOL, V(cache_prompt), 0, 0, NULL, false, "use the prefix cache (true)" },
    { "return_tokens", LM_FIELD_BOOL, V(return_tokens), 0, 0, NULL, false, "also return the ids of the output" },
    { "response_fields", LM_FIELD_ARRAY, V(fields), 0, 0, NULL, false,
      "members of the answer to return, by paths as generation_settings/n_predict; empty: all" },
    { 0 },
};
static const lm_field_group native_groups[] = { { prompt_fields, 0 }, { native_fields, 0 }, { lm_params_fields, V(params) },
        { lm_params_traced, V(params) }, { lm_constraints_fields, V(params.constraints) }, { 0 } };
static const lm_field_group middle_groups[] = { { middle_fields, 0 }, { native_fields, 0 }, { lm_params_fields, V(params) },
        { lm_params_traced, V(params) }, { lm_constraints_fields, V(params.constraints) }, { 0 } };

static void native_defaults(const lm_service *s, void *values)
{
    native_values *v = values;

    lm_params_defaults(s, &v->params);
    v->n_predict = s->o.predict;
    v->n = 1;
    v->cache_prompt = true;
}

static lm_status check_fields(const json_t *fields, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_MOST_PATHS, json_array_size(fields), e));
    for (size_t i = 0; i < json_array_size(fields); i++)
        if (!json_is_string(json_array_get(fields, i)))
            return lm_fail(e, LM_USAGE, "response_fields", LM_NO_OFFSET, "element %zu must be a string", i);
    return LM_OK;
}

static lm_status prepare_native(lm_call *c, const lm_ask *a, const lm_prepared *parts, void *out, lm_error *e)
{
    const native_values *v = c->values;
    const lm_prompts *prompts = &a->prompts;
    lm_native_own *own = out;

    if (!(own->prompts = json_array()))
        return lm_fail_memory(e, "the answer", 0);
    own->probs = v->n_probs > 0;
    own->sampled = v->params.sampled;
    own->tokens = v->return_tokens;
    own->list = prompts->n * v->n > 1;
    own->settings = lm_native_settings(c->service, a->params, parts, (int32_t)v->n_probs);
    own->fields = json_incref(v->fields);
    for (size_t i = 0; i < prompts->n; i++) {
        lm_text text = { 0 };
        LM_TRY(lm_detokenize(c->service->tokenizer, prompts->items[i].ids, prompts->items[i].n, 0, &text, e));
        for (uint32_t k = 0; k < v->n; k++)
            json_array_append_new(own->prompts, json_stringn(text.data ? text.data : "", text.size));
        lm_text_free(&text);
    }
    return LM_OK;
}

static lm_status read_native(lm_call *c, lm_ask *a, lm_error *e)
{
    return lm_prompts_read(c->service, ((const native_values *)c->values)->prompt, LM_MOST_PROMPTS, &a->prompts, e);
}

static lm_status read_infill(lm_call *c, lm_ask *a, lm_error *e)
{
    const native_values *v = c->values;
    const lm_middle m = { .prefix = v->prefix, .suffix = v->suffix, .extra = v->extra, .begun = v->middle };
    lm_tokens *prompt;

    LM_TRY(lm_middle_check(&m, "input_extra", e));
    if (!lm_middle_supported(c->service))
        return lm_fault(c, e, 501, NULL, "the model does not support infilling: its vocabulary has no tokens for it");
    LM_TRY(lm_prompts_one(&a->prompts, &prompt, e));
    return lm_middle_prompt(c->service, &m, prompt, e);
}

static lm_status answer(lm_call *c, lm_status (*read)(lm_call *c, lm_ask *a, lm_error *e), lm_error *e)
{
    native_values *v = c->values;
    lm_ask a = { .params = &v->params, .id_prefix = "cmpl-", .prompt_only = !v->n_predict, .read = read, .prepare = prepare_native,
                 .logprobs = v->n_probs ? (int32_t)v->n_probs : v->return_tokens ? -1 : 0 };

    v->params.max_tokens = v->n_predict;
    v->params.no_cache = !v->cache_prompt;
    v->params.n = v->n;
    LM_TRY(check_fields(v->fields, e));
    return lm_ask_answer(c, &a, &lm_native_writer, e);
}

static lm_status answer_native(lm_call *c, lm_error *e)
{
    return answer(c, read_native, e);
}

static lm_status answer_infill(lm_call *c, lm_error *e)
{
    return answer(c, read_infill, e);
}

const lm_route lm_route_completion = { "POST", "/completion", "/completions", 0, LM_DIALECT_NATIVE, "continue a text, llama.cpp-compatible",
                                       native_groups, sizeof(native_values), native_defaults, answer_native, NULL };
const lm_route lm_route_infill = { "POST", "/infill", NULL, 0, LM_DIALECT_NATIVE,
                                   "fill in the missing middle of a text, if the model has tokens for it", middle_groups,
                                   sizeof(native_values), native_defaults, answer_infill, NULL };
