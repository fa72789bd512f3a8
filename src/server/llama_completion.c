/* POST /completion: llama.cpp's own. */
#include <stdlib.h>
#include <string.h>

#include "server/asked.h"
#include "server/routes.h"

typedef struct native_values {
    lm_asked asked;
    const char *model;
    json_t  *prompt;
    int64_t  n_predict;
    uint32_t n_probs, n;
    bool     cache_prompt, return_tokens;
} native_values;

#define V(field) offsetof(native_values, field)

static const lm_field native_fields[] = {
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; where there is one model, any" },
    { "prompt", LM_FIELD_ANY, V(prompt), 0, 0, NULL, true, "string, or array of token ids and strings" },
    { "n_predict", LM_FIELD_I64, V(n_predict), -1, 1e9, NULL, false, "most tokens to write; -1: as many as the context holds" },
    { "max_tokens", LM_FIELD_I64, V(n_predict), -1, 1e9, NULL, false, "OpenAI's name of n_predict" },
    { "n_probs", LM_FIELD_U32, V(n_probs), 0, 20, NULL, false, "most probable tokens told with each" },
    { "n", LM_FIELD_U32, V(n), 1, 1, NULL, false, "1" },
    { "cache_prompt", LM_FIELD_BOOL, V(cache_prompt), 0, 0, NULL, false, "use the prefix cache (true)" },
    { "return_tokens", LM_FIELD_BOOL, V(return_tokens), 0, 0, NULL, false, "ids of the text, too" },
    { 0 },
};
static const lm_field_group native_groups[] = { { native_fields, 0 }, { lm_asked_fields, V(asked) },
        { lm_allowed_fields, V(asked.limits) }, { 0 } };

static void native_defaults(const lm_service *s, void *values)
{
    native_values *v = values;

    lm_asked_defaults(s, &v->asked);
    v->n_predict = s->o.predict;
    v->n = 1;
    v->cache_prompt = true;
}

typedef struct native_own { bool probs, tokens; int32_t slot; double temperature; int64_t n_predict; } native_own;

static const char *stop_type(const lm_choice *c)
{
    switch (c->stop) {
    case LM_STOP_EOS:     return "eos";
    case LM_STOP_STRING:  return "word";
    case LM_STOP_LENGTH:
    case LM_STOP_CONTEXT: return "limit";
    default:              return "none";
    }
}

static json_t *ids_json(const lm_choice *c)
{
    json_t *list = json_array(), *token;
    size_t i;

    json_array_foreach(c->tokens, i, token)
        json_array_append(list, json_object_get(token, "id"));
    return list;
}

static json_t *last_json(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    const native_own *own = t->own;
    json_t *o = json_pack("{s:i, s:s%, s:o, s:I, s:b, s:s, s:I, s:I, s:b, s:s, s:I, s:o}", "index", 0, "content", text, n,
                          "tokens", own->tokens && c->tokens ? ids_json(c) : json_array(), "id_slot", (json_int_t)c->usage.slot,
                          "stop", 1, "model", t->service->name, "tokens_predicted", (json_int_t)c->usage.n_tokens,
                          "tokens_evaluated", (json_int_t)c->usage.n_prompt, "truncated", 0, "stop_type", stop_type(c),
                          "tokens_cached", (json_int_t)(c->usage.n_prompt + c->usage.n_tokens), "timings", lm_turn_timings(c));

    json_object_set_new(o, "generation_settings",
                        json_pack("{s:f, s:I}", "temperature", own->temperature, "n_predict", (json_int_t)own->n_predict));
    if (t->warnings)
        json_object_set(o, "warnings", t->warnings);
    return o;
}

static void native_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    lm_turn_send(t, NULL,
                 json_pack("{s:i, s:s%, s:o, s:b, s:I, s:I}", "index", 0, "content", text, n, "tokens",
                           c->tokens ? ids_json(c) : json_array(), "stop", 0, "tokens_predicted", (json_int_t)c->n_tokens,
                           "tokens_evaluated", (json_int_t)c->n_prompt));
    if (c->tokens)
        json_array_clear(c->tokens);
}

static void native_end(lm_turn *t, lm_choice *c)
{
    lm_turn_send(t, NULL, last_json(t, c, "", 0));
}

static json_t *probabilities(lm_turn *t, const lm_choice *c)
{
    json_t *list = json_array(), *token, *one;
    size_t i, j;

    json_array_foreach(c->tokens, i, token) {
        json_t *top = json_array(), *o = json_copy(token);

        json_array_foreach(json_object_get(token, "top"), j, one) {
            lm_text text = { 0 };
            json_t *with = json_copy(one);
            lm_token_bytes(t->service->tokenizer, (lm_token)json_integer_value(json_object_get(one, "id")), &text);
            json_object_set_new(with, "token", json_stringn(text.data ? text.data : "", text.size));
            json_array_append_new(top, with);
            lm_text_free(&text);
        }
        json_object_del(o, "top");
        json_object_set_new(o, "top_logprobs", top);
        json_array_append_new(list, o);
    }
    return list;
}

static void native_finish(lm_turn *t)
{
    const native_own *own = t->own;
    lm_choice *c = t->choices;
    json_t *o;
    char *text;

    if (t->stream)
        return;
    o = last_json(t, c, c->text.data ? c->text.data : "", c->text.size);
    if (own->probs)
        json_object_set_new(o, "completion_probabilities", probabilities(t, c));
    text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text)
        lm_text_add_str(t->out, text);
    else
        t->out->failed = true;
    free(text);
}

static void native_fault(lm_turn *t, const lm_error *e)
{
    lm_turn_send(t, NULL, lm_fault_json(LM_DIALECT_NATIVE, 0, e));
}

static void native_alive(lm_turn *t)
{
    lm_text_add_str(t->out, ": waiting\n\n");
}

static const lm_writer native_writer = { LM_DIALECT_NATIVE, "text/event-stream", NULL, native_text, NULL, native_end, native_finish,
        native_fault, native_alive,
                                         NULL };

static lm_status answer_native(lm_call *c, lm_error *e)
{
    native_values *v = c->values;
    lm_turn_options o = { .id_prefix = "cmpl-" };
    lm_asked_parts parts = { 0 };
    lm_prompts prompts = { 0 };
    native_own *own = calloc(1, sizeof *own);
    lm_status status = own ? LM_OK : lm_fail_memory(e, "the answer", sizeof *own);

    v->asked.max_tokens = v->n_predict;
    v->asked.no_cache = !v->cache_prompt;
    if (status == LM_OK)
        status = lm_asked_options(c, &v->asked, &o, &parts, e);
    if (status == LM_OK)
        status = lm_prompts_read(c->service, v->prompt, 1, &prompts, e);
    if (status == LM_OK) {
        *own = (native_own){ .probs = v->n_probs > 0, .tokens = v->return_tokens, .temperature = (double)v->asked.sampling.temperature,
                             .n_predict = v->n_predict };
        o.prompts = prompts.items;
        o.n_prompts = prompts.n;
        o.own = own;
        own = NULL;
        o.sequence.logprobs = v->n_probs ? (int32_t)v->n_probs : v->return_tokens ? -1 : 0;
        o.sequence.prompt_only = !v->n_predict;
        status = lm_turn_start(c, &o, &native_writer, e);
    }
    free(own);
    lm_asked_free(&parts);
    lm_prompts_free(&prompts);
    return status;
}

const lm_route lm_route_completion = { "POST", "/completion", "/completions", 0, LM_DIALECT_NATIVE, "continue a text, in llama.cpp's words",
                                       native_groups, sizeof(native_values), native_defaults, answer_native };
