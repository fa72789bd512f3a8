#include "server/asked.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define S(field) offsetof(lm_asked, sampling.field)
#define A(field) offsetof(lm_asked, field)

enum { MAX_STOPS = 16, MAX_BIAS = 4096, MAX_TEXTS = 8 };

const lm_field lm_asked_fields[] = {
    { "temperature", LM_FIELD_FLOAT, S(temperature), 0, 100, NULL, false, "0: the most probable token" },
    { "top_p", LM_FIELD_FLOAT, S(top_p), 0, 1, NULL, false, "nucleus sampling; 1: off" },
    { "top_k", LM_FIELD_I32, S(top_k), -1, 1e9, NULL, false, "keep the K most probable tokens; 0 or -1: all" },
    { "min_p", LM_FIELD_FLOAT, S(min_p), 0, 1, NULL, false, "least probability, relative to the most probable token's" },
    { "typical_p", LM_FIELD_FLOAT, S(typical_p), 0, 1, NULL, false, "locally typical sampling; 1: off" },
    { "top_n_sigma", LM_FIELD_FLOAT, S(top_n_sigma), -1, 1e6, NULL, false, "keep logits within N standard deviations of the largest" },
    { "xtc_probability", LM_FIELD_FLOAT, S(xtc_probability), 0, 1, NULL, false, "chance to leave out the most probable tokens" },
    { "xtc_threshold", LM_FIELD_FLOAT, S(xtc_threshold), 0, 1, NULL, false, "probability above which XTC leaves tokens out" },
    { "dynatemp_range", LM_FIELD_FLOAT, S(dynatemp_range), 0, 100, NULL, false, "range of the dynamic temperature" },
    { "dynatemp_exponent", LM_FIELD_FLOAT, S(dynatemp_exponent), 0, 100, NULL, false, "exponent of the dynamic temperature" },
    { "repeat_penalty", LM_FIELD_FLOAT, S(repeat_penalty), 0, 100, NULL, false, "penalty for tokens already in the text; 1: none" },
    { "repeat_last_n", LM_FIELD_I32, S(repeat_last_n), -1, 1e9, NULL, false, "tokens that penalties look back; -1: all" },
    { "presence_penalty", LM_FIELD_FLOAT, S(presence_penalty), -100, 100, NULL, false, "added once for a token already in the text" },
    { "frequency_penalty", LM_FIELD_FLOAT, S(frequency_penalty), -100, 100, NULL, false,
      "added for each time that a token is in the text" },
    { "dry_multiplier", LM_FIELD_FLOAT, S(dry_multiplier), 0, 100, NULL, false, "DRY repetition penalty; 0: off" },
    { "dry_base", LM_FIELD_FLOAT, S(dry_base), 0, 100, NULL, false, "base of the DRY penalty" },
    { "dry_allowed_length", LM_FIELD_I32, S(dry_allowed_length), 0, 1e9, NULL, false, "length of repetition without a DRY penalty" },
    { "dry_penalty_last_n", LM_FIELD_I32, S(dry_penalty_last_n), -1, 1e9, NULL, false, "tokens that DRY looks back; -1: all" },
    { "mirostat", LM_FIELD_I32, S(mirostat), 0, 2, NULL, false, "2: Mirostat 2.0; 0: off" },
    { "mirostat_tau", LM_FIELD_FLOAT, S(mirostat_tau), 0, 100, NULL, false, "target entropy of Mirostat" },
    { "mirostat_eta", LM_FIELD_FLOAT, S(mirostat_eta), 0, 100, NULL, false, "learning rate of Mirostat" },
    { "min_keep", LM_FIELD_U32, S(min_keep), 0, 1e6, NULL, false, "tokens that every step of sampling keeps at least" },
    { "seed", LM_FIELD_I64, A(seed), -1, 9e15, NULL, false, "same request and seed, same text; -1: drawn" },
    { "stop", LM_FIELD_ANY, A(stop), 0, 0, NULL, false, "string or array of strings that end the text" },
    { "logit_bias", LM_FIELD_ANY, A(logit_bias), 0, 0, NULL, false, "object of token id to bias, -100 to 100; or array of [id, bias]" },
    { "stream", LM_FIELD_BOOL, A(stream), 0, 0, NULL, false, "send the text as it is written" },
    { "ignore_eos", LM_FIELD_BOOL, A(ignore_eos), 0, 0, NULL, false, "go on after tokens that end a text" },
    { "id_slot", LM_FIELD_I32, A(slot), -1, 1e6, NULL, false, "slot to use; -1: any" },
    { "timings_per_token", LM_FIELD_BOOL, A(timings), 0, 0, NULL, false, "timings with each event of a stream" },
    { "samplers", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "the order of samplers is set by the server" },
    { "lora", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "adapters" },
    { 0 },
};

void lm_asked_defaults(const lm_service *s, lm_asked *a)
{
    *a = (lm_asked){ .sampling = s->o.sampling, .seed = -1, .slot = -1, .n = 1, .max_tokens = s->o.predict };
}

/* ---- stops and biases ---- */

static lm_status read_stops(const json_t *stop, lm_asked_parts *parts, lm_error *e)
{
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1;

    if (!stop)
        return LM_OK;
    if (n > MAX_STOPS)
        return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET, "%zu strings, at most %d are allowed", n, MAX_STOPS);
    if (!(parts->stops = calloc(n + 1, sizeof *parts->stops)))
        return lm_fail_memory(e, "stop strings", n * sizeof *parts->stops);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;

        if (!json_is_string(one) || !json_string_length(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET, "expected a string that is not empty, or an array of such");
        parts->stops[i] = json_string_value(one);
    }
    return LM_OK;
}

static lm_status add_bias(const lm_service *s, lm_logit_bias *out, size_t *n, double id, const json_t *bias, lm_error *e)
{
    float value = json_is_false(bias) ? -INFINITY : (float)json_number_value(bias);

    if (!json_is_false(bias) && !json_is_number(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "a bias is a number");
    if (!(id >= 0 && id < s->info.n_vocab) || id != floor(id))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "token %.0f is outside the vocabulary of %u", id, s->info.n_vocab);
    if (!json_is_false(bias) && !(value >= -1e6f && value <= 1e6f))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "%g is too large", (double)value);
    out[(*n)++] = (lm_logit_bias){ .id = (lm_token)id, .bias = value };
    return LM_OK;
}

static lm_status read_bias(const lm_service *s, json_t *bias, lm_asked_parts *parts, lm_sampler_options *o, lm_error *e)
{
    size_t n = bias ? (json_is_array(bias) ? json_array_size(bias) : json_object_size(bias)) : 0;
    const char *key;
    json_t *value;

    if (!bias)
        return LM_OK;
    if (!json_is_array(bias) && !json_is_object(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "expected an object or an array");
    if (n > MAX_BIAS)
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "%zu tokens, at most %d are allowed", n, MAX_BIAS);
    if (n && !(parts->bias = calloc(n, sizeof *parts->bias)))
        return lm_fail_memory(e, "logit biases", n * sizeof *parts->bias);
    o->bias = parts->bias;
    if (json_is_object(bias)) {
        json_object_foreach(bias, key, value) {
            char *end;
            double id = strtod(key, &end);
            if (!*key || *end)
                return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "\"%.40s\" is not a token id", key);
            LM_TRY(add_bias(s, parts->bias, &o->n_bias, id, value, e));
        }
        return LM_OK;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(bias, i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "expected pairs [id, bias]");
        LM_TRY(add_bias(s, parts->bias, &o->n_bias, json_number_value(id), json_array_get(pair, 1), e));
    }
    return LM_OK;
}

lm_status lm_asked_options(const lm_call *c, const lm_asked *a, lm_turn_options *o, lm_asked_parts *parts, lm_error *e)
{
    *parts = (lm_asked_parts){ 0 };
    if (a->n < 1 || a->n > MAX_TEXTS)
        return lm_fail(e, LM_USAGE, "n", LM_NO_OFFSET, "%u is outside 1 to %d", a->n, MAX_TEXTS);
    LM_TRY(read_stops(a->stop, parts, e));
    o->sampling = a->sampling;
    LM_TRY(read_bias(c->service, a->logit_bias, parts, &o->sampling, e));
    if (a->slot >= (int32_t)lm_schedule_slots(c->service->schedule))
        return lm_fail(e, LM_USAGE, "id_slot", LM_NO_OFFSET, "the server has %u slots", lm_schedule_slots(c->service->schedule));
    if (a->seed >= 0)
        o->sampling.seed = (uint64_t)a->seed;
    else
        randombytes_buf(&o->sampling.seed, sizeof o->sampling.seed);
    LM_TRY(lm_allowed_compile(c->service, &a->limits, &parts->grammar, e));
    o->grammar = parts->grammar;
    o->n = a->n;
    o->stream = a->stream;
    o->no_cache = a->no_cache;
    o->wanted_slot = (uint32_t)(a->slot + 1);
    o->sequence.max_tokens = a->max_tokens;
    o->sequence.stops = parts->stops;
    o->sequence.ignore_eos = a->ignore_eos;
    return LM_OK;
}

void lm_asked_free(lm_asked_parts *parts)
{
    free(parts->stops);
    free(parts->bias);
    lm_grammar_free(parts->grammar);
}

/* ---- prompts ---- */

static lm_status read_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (json_is_string(id)) {                        /* llama.cpp: ids and texts mixed */
            LM_TRY(lm_tokenize(s->tokenizer, json_string_value(id), json_string_length(id), i ? 0 : LM_ADD_SPECIAL, out, e));
            continue;
        }
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "element %zu is not a token id below %u", i, s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

static lm_status read_prompt(const lm_service *s, const json_t *value, lm_tokens *out, lm_error *e)
{
    if (json_is_string(value))
        return lm_tokenize(s->tokenizer, json_string_value(value), json_string_length(value), LM_ADD_SPECIAL, out, e);
    if (json_is_array(value))
        return read_ids(s, value, out, e);
    return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "expected a string, an array of token ids, or an array of those");
}

lm_status lm_prompts_read(const lm_service *s, const json_t *value, size_t most, lm_prompts *out, lm_error *e)
{
    const json_t *first = json_array_get(value, 0);
    bool many = json_is_array(first) || (json_is_string(first) && json_is_string(json_array_get(value, json_array_size(value) - 1)));

    *out = (lm_prompts){ 0 };
    if (!value)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "required and missing");
    size_t n = many ? json_array_size(value) : 1;
    if (n > most)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "%zu prompts, at most %zu are allowed", n, most);
    if (!(out->items = calloc(n, sizeof *out->items)))
        return lm_fail_memory(e, "prompts", n * sizeof *out->items);
    for (out->n = 0; out->n < n;) {
        lm_tokens *at = out->items + out->n++;
        LM_TRY(read_prompt(s, many ? json_array_get(value, out->n - 1) : value, at, e));
        if (!at->n)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "empty");
    }
    return LM_OK;
}

void lm_prompts_free(lm_prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        lm_tokens_free(p->items + i);
    free(p->items);
    *p = (lm_prompts){ 0 };
}
