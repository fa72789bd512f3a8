/* The response to POST /completion and /infill. Read from lm_native_writer upwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/token_json.h"
#include "server/ask/writer.h"
#include "server/models/loras.h"
#include "server/dialects/native.h"

/* ---- settings ---- */

static json_t *strings(const char *const *list)
{
    json_t *o = json_array();

    for (size_t i = 0; list && list[i]; i++)
        json_array_append_new(o, json_string(list[i]));
    return o;
}

/* A banned token has the bias null: JSON has no minus infinity. */
static json_t *bias_json(float bias)
{
    return isfinite(bias) ? lm_field_float(bias) : json_null();
}

/* As in llama-server, end tokens that ignore_eos excludes are banned tokens. */
static json_t *biases(const lm_service *s, const lm_turn *t)
{
    const lm_sampler_options *p = &t->sampling;
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_bias; i++)
        json_array_append_new(list, json_pack("{s:i, s:o}", "token", p->bias[i].id, "bias",
                                              bias_json(p->bias[i].bias)));
    for (uint32_t i = 0; t->ignore_eos && i < s->info.n_vocab; i++)
        if (lm_model_is_end(s->model, (lm_token)i))
            json_array_append_new(list, json_pack("{s:i, s:n}", "token", (int)i, "bias"));
    return list;
}

static json_t *order(const lm_sampler_options *p)
{
    const char *all = p->order ? p->order
                               : "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    json_t *list = json_array();

    for (size_t n; *all; all += n + (all[n] == ';')) {
        n = strcspn(all, ";");
        json_array_append_new(list, json_stringn(all, n));
    }
    return list;
}

typedef struct named_number { const char *name; float value; } named_number;

json_t *lm_native_settings(const lm_service *s, const lm_turn *t, uint32_t n_probs)
{
    const lm_sampler_options *p = &t->sampling;
    const named_number numbers[] = {
        { "temperature", p->temperature },
        { "dynatemp_range", p->dynatemp_range },
        { "dynatemp_exponent", p->dynatemp_exponent },
        { "top_p", p->top_p },
        { "min_p", p->min_p },
        { "top_n_sigma", p->top_n_sigma },
        { "xtc_probability", p->xtc_probability },
        { "xtc_threshold", p->xtc_threshold },
        { "typical_p", p->typical_p },
        { "repeat_penalty", p->repeat_penalty },
        { "presence_penalty", p->presence_penalty },
        { "frequency_penalty", p->frequency_penalty },
        { "dry_multiplier", p->dry_multiplier },
        { "dry_base", p->dry_base },
        { "mirostat_tau", p->mirostat_tau },
        { "mirostat_eta", p->mirostat_eta },
    };
    json_t *all = json_pack("{s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:b, s:b, s:s}", "seed",
                            (json_int_t)t->seed, "top_k", p->top_k, "repeat_last_n", p->repeat_last_n,
                            "dry_allowed_length", p->dry_allowed_length, "dry_penalty_last_n",
                            p->dry_penalty_last_n, "mirostat", p->mirostat, "min_keep", (int)p->min_keep,
                            "max_tokens", (json_int_t)t->max_tokens, "n_predict", (json_int_t)t->max_tokens,
                            "ignore_eos", t->ignore_eos, "stream", t->stream, "grammar",
                            t->constraints.grammar ? t->constraints.grammar : "");

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(all, numbers[i].name, lm_field_float(numbers[i].value));
    json_object_set_new(all, "stop", strings(t->stops));
    json_object_set_new(all, "logit_bias", biases(s, t));
    json_object_set_new(all, "samplers", order(p));
    json_object_set_new(all, "dry_sequence_breakers",
                        p->dry_breakers ? strings(p->dry_breakers)
                                        : json_pack("[ssss]", "\n", ":", "\"", "*"));
    json_object_set_new(all, "n_probs", json_integer((json_int_t)n_probs));
    json_object_set_new(all, "timings_per_token", json_boolean(t->timings));
    json_object_set_new(all, "post_sampling_probs", json_boolean(t->sampled));
    json_object_set_new(all, "t_max_predict_ms", json_integer(t->max_ms));
    json_object_set_new(all, "grammar_lazy", json_boolean(t->constraints.lazy));
    json_object_set_new(all, "grammar_triggers",
                        t->constraints.triggers ? json_incref(t->constraints.triggers) : json_array());
    json_object_set_new(all, "preserved_tokens",
                        t->body.preserved ? json_incref(t->body.preserved) : json_array());
    json_object_set_new(all, "lora", lm_loras_json(s, t->loras));
    return all;
}

/* ---- parts ---- */

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

/* Add the text of a token on its own, and its bytes, which need not be whole characters. */
static void add_token_text(const lm_turn *t, json_t *o)
{
    lm_token id = (lm_token)json_integer_value(json_object_get(o, "id"));

    json_object_set_new(o, "token", lm_token_text(t->service->tokenizer, id));
    json_object_set_new(o, "bytes", lm_token_byte_list(t->service->tokenizer, id));
}

/* Replace the log-probability by a probability, named as llama.cpp names those after sampling. */
static void as_probability(json_t *o)
{
    json_object_set_new(o, "prob", json_real(exp(json_number_value(json_object_get(o, "logprob")))));
    json_object_del(o, "logprob");
}

static json_t *probabilities(const lm_turn *t, const lm_choice *c)
{
    json_t *list = json_array(), *token, *one;
    size_t i, j;

    json_array_foreach(c->tokens, i, token) {
        json_t *top = json_array(), *o = json_copy(token);

        json_array_foreach(json_object_get(token, "top"), j, one) {
            json_t *with = json_copy(one);
            add_token_text(t, with);
            if (t->sampled)
                as_probability(with);
            json_array_append_new(top, with);
        }
        json_object_del(o, "top");
        add_token_text(t, o);
        if (t->sampled)
            as_probability(o);
        json_object_set_new(o, t->sampled ? "top_probs" : "top_logprobs", top);
        json_array_append_new(list, o);
    }
    return list;
}

/* ---- documents ---- */

/* Return the members of `o` that the paths in `fields` name ("generation_settings/n_predict"); all if there
 * are none. Takes ownership of `o`. */
static json_t *select_fields(json_t *o, const json_t *fields)
{
    json_t *out;

    if (!json_array_size(fields) || !o)
        return o;
    out = json_object();
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *path = json_string_value(json_array_get(fields, i));
        json_t *at = o;

        for (const char *part = path; at && *part; part += strcspn(part, "/"), part += *part == '/')
            at = json_object_getn(at, part, strcspn(part, "/"));
        if (at)
            json_object_set(out, path, at);
    }
    json_decref(o);
    return out;
}

static json_t *last_json(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    const lm_native_turn *own = (const lm_native_turn *)t;
    json_t *o = json_pack("{s:i, s:s%, s:o, s:I, s:b, s:s, s:I, s:I}", "index", (int)c->index, "content",
                          text, n, "tokens", own->return_tokens && c->tokens ? ids_json(c) : json_array(),
                          "id_slot", (json_int_t)c->usage.slot, "stop", 1, "model", t->service->name,
                          "tokens_predicted", (json_int_t)c->usage.n_tokens, "tokens_evaluated",
                          (json_int_t)c->usage.n_prompt);
    json_t *end = json_pack("{s:b, s:s, s:s, s:b, s:I, s:o}", "truncated", c->stop == LM_STOP_CONTEXT,
                            "stop_type", stop_type(c), "stopping_word", c->stop_word ? c->stop_word : "",
                            "has_new_line", c->new_line, "tokens_cached",
                            (json_int_t)(c->usage.n_prompt + c->usage.n_tokens), "timings",
                            lm_turn_timings(c));

    json_object_update(o, end);
    json_decref(end);

    json_object_set(o, "generation_settings", own->settings);
    json_object_set(o, "prompt", json_array_get(own->prompts, c->index % json_array_size(own->prompts)));
    lm_turn_extras(t, o);
    return o;
}

static void native_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    const lm_native_turn *own = (const lm_native_turn *)t;
    json_t *o = json_pack("{s:i, s:s%, s:o, s:b, s:I, s:I}", "index", (int)c->index, "content", text, n,
                          "tokens", c->tokens ? ids_json(c) : json_array(), "stop", 0, "tokens_predicted",
                          (json_int_t)c->n_tokens, "tokens_evaluated", (json_int_t)c->n_prompt);

    if (own->n_probs)
        json_object_set_new(o, "completion_probabilities", probabilities(t, c));
    lm_turn_piece(t, c, o);
    lm_turn_send(t, NULL, o);
    if (c->tokens)
        json_array_clear(c->tokens);
}

static void native_end(lm_turn *t, lm_choice *c)
{
    const lm_native_turn *own = (const lm_native_turn *)t;
    json_t *o = last_json(t, c, "", 0);

    /* Of the token that ended the output, and of those whose text was held back. */
    if (own->n_probs)
        json_object_set_new(o, "completion_probabilities", probabilities(t, c));
    lm_turn_send(t, NULL, select_fields(o, own->kept_fields));
}

static void native_finish(lm_turn *t)
{
    const lm_native_turn *own = (const lm_native_turn *)t;
    json_t *list = json_array();

    for (size_t i = 0; !t->stream && i < t->n_choices; i++) {
        lm_choice *c = t->choices + i;
        json_t *o = last_json(t, c, c->text.data ? c->text.data : "", c->text.size);
        if (own->n_probs)
            json_object_set_new(o, "completion_probabilities", probabilities(t, c));
        json_array_append_new(list, select_fields(o, own->kept_fields));
    }
    if (!t->stream)
        lm_turn_line(t, json_incref(t->n_choices > 1 ? list : json_array_get(list, 0)));
    json_decref(list);
}

/* Send an event without text that has another member. */
static void send_other(lm_turn *t, const lm_choice *c, const char *name, json_t *value)
{
    json_t *o = json_pack("{s:i, s:s, s:[], s:b, s:o}", "index", (int)c->index, "content", "", "tokens",
                          "stop", 0, name, value);

    lm_turn_piece(t, c, o);
    lm_turn_send(t, NULL, o);
}

static void native_progress(lm_turn *t, lm_choice *c, json_t *progress)
{
    send_other(t, c, "prompt_progress", progress);
}

static void native_trace(lm_turn *t, lm_choice *c, json_t *trace)
{
    send_other(t, c, "trace", trace);
}

/* ---- the writer ---- */

static lm_status native_prepare(lm_call *c, lm_turn *t, lm_error *e)
{
    lm_native_turn *v = (lm_native_turn *)t;

    if (!(v->prompts = json_array()))
        return lm_fail_memory(e, "the answer", 0);
    v->settings = lm_native_settings(c->service, t, v->n_probs);
    v->kept_fields = json_incref(v->fields);
    for (size_t i = 0; i < t->prompts.n; i++) {
        const lm_tokens *prompt = t->prompts.items + i;
        lm_text text = { 0 };
        LM_TRY(lm_detokenize(c->service->tokenizer, prompt->ids, prompt->n, 0, &text, e));
        for (uint32_t k = 0; k < t->n; k++)
            json_array_append_new(v->prompts, json_stringn(text.data ? text.data : "", text.size));
        lm_text_free(&text);
    }
    return LM_OK;
}

static void native_release(lm_turn *t)
{
    lm_native_turn *v = (lm_native_turn *)t;

    json_decref(v->settings);
    json_decref(v->prompts);
    json_decref(v->kept_fields);
}

const lm_writer lm_native_writer = { .dialect = LM_DIALECT_NATIVE, .type = "text/event-stream",
                                     .id_prefix = "cmpl-", .prepare = native_prepare, .text = native_text,
                                     .end = native_end, .finish = native_finish, .fault = lm_turn_fault,
                                     .progress = native_progress, .trace = native_trace,
                                     .alive = lm_turn_waiting, .release = native_release };
