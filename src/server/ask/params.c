#include "server/ask/params.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/models/loras.h"

#define S(field) offsetof(lm_params, sampling.field)
#define A(field) offsetof(lm_params, field)


static const char *const as_usual[] = { "true", NULL };

const lm_field lm_params_fields[] = {
    { "temperature", LM_FIELD_FLOAT, S(temperature), 0, 100, NULL, false, "0: the most probable token" },
    { "top_p", LM_FIELD_FLOAT, S(top_p), 0, 1, NULL, false, "nucleus sampling; 1: off" },
    { "top_k", LM_FIELD_I32, S(top_k), -1, 1e9, NULL, false, "sample from the K most probable tokens; 0 or -1: all" },
    { "min_p", LM_FIELD_FLOAT, S(min_p), 0, 1, NULL, false, "minimum probability, relative to the most probable token" },
    { "typical_p", LM_FIELD_FLOAT, S(typical_p), 0, 1, NULL, false, "locally typical sampling; 1: off" },
    { "top_n_sigma", LM_FIELD_FLOAT, S(top_n_sigma), -1, 1e6, NULL, false, "keep logits within N standard deviations of the largest" },
    { "xtc_probability", LM_FIELD_FLOAT, S(xtc_probability), 0, 1, NULL, false, "probability of excluding the most probable tokens" },
    { "xtc_threshold", LM_FIELD_FLOAT, S(xtc_threshold), 0, 1, NULL, false, "probability above which XTC excludes tokens" },
    { "dynatemp_range", LM_FIELD_FLOAT, S(dynatemp_range), 0, 100, NULL, false, "range of the dynamic temperature" },
    { "dynatemp_exponent", LM_FIELD_FLOAT, S(dynatemp_exponent), 0, 100, NULL, false, "exponent of the dynamic temperature" },
    { "repeat_penalty", LM_FIELD_FLOAT, S(repeat_penalty), 0, 100, NULL, false, "penalty for tokens already in the sequence; 1: none" },
    { "repetition_penalty", LM_FIELD_FLOAT, S(repeat_penalty), 0, 100, NULL, false,
      "vLLM's name of repeat_penalty; applies to the whole sequence unless repeat_last_n is given" },
    { "repeat_last_n", LM_FIELD_I32, S(repeat_last_n), -1, 1e9, NULL, false, "number of last tokens that penalties apply to; -1: all" },
    { "presence_penalty", LM_FIELD_FLOAT, S(presence_penalty), -100, 100, NULL, false, "penalty added once for a token already in the sequence" },
    { "frequency_penalty", LM_FIELD_FLOAT, S(frequency_penalty), -100, 100, NULL, false,
      "penalty added for each occurrence of a token in the sequence" },
    { "dry_multiplier", LM_FIELD_FLOAT, S(dry_multiplier), 0, 100, NULL, false, "DRY repetition penalty; 0: off" },
    { "dry_base", LM_FIELD_FLOAT, S(dry_base), 0, 100, NULL, false, "base of the DRY penalty" },
    { "dry_allowed_length", LM_FIELD_I32, S(dry_allowed_length), 0, 1e9, NULL, false, "length of repetition without a DRY penalty" },
    { "dry_penalty_last_n", LM_FIELD_I32, S(dry_penalty_last_n), -1, 1e9, NULL, false, "number of last tokens that DRY applies to; -1: all" },
    { "dry_sequence_breakers", LM_FIELD_ARRAY, A(breakers), 0, 0, NULL, false, "strings that end a repetition for DRY" },
    { "mirostat", LM_FIELD_I32, S(mirostat), 0, 2, NULL, false, "2: Mirostat 2.0; 0: off" },
    { "mirostat_tau", LM_FIELD_FLOAT, S(mirostat_tau), 0, 100, NULL, false, "target entropy of Mirostat" },
    { "mirostat_eta", LM_FIELD_FLOAT, S(mirostat_eta), 0, 100, NULL, false, "learning rate of Mirostat" },
    { "min_keep", LM_FIELD_U32, S(min_keep), 0, 1e6, NULL, false, "minimum number of tokens that each sampler leaves" },
    { "seed", LM_FIELD_I64, A(seed), -0x1p63, 0x1p63, NULL, false, "random seed; the same request and seed give the same output; -1: random" },
    { "stop", LM_FIELD_ANY, A(stop), 0, 0, NULL, false, "string or array of strings that end the output" },
    { "logit_bias", LM_FIELD_ANY, A(logit_bias), 0, 0, NULL, false,
      "object of token id, or string with all its tokens, to bias; or array of [id or string, bias]; false: never" },
    { "stream", LM_FIELD_BOOL, A(stream), 0, 0, NULL, false, "send the output as it is generated" },
    { "ignore_eos", LM_FIELD_BOOL, A(ignore_eos), 0, 0, NULL, false, "never choose an end-of-text token, unless a constraint is complete" },
    { "id_slot", LM_FIELD_I32, A(slot), -1, 1e6, NULL, false, "slot to use; -1: any" },
    { "priority", LM_FIELD_I32, A(priority), -LM_MOST_PRIORITY, LM_MOST_PRIORITY, NULL, false,
      "requests with lower numbers are admitted first (default: that of the API key, or 0); with API keys, not below that of the key" },
    { "timings_per_token", LM_FIELD_BOOL, A(timings), 0, 0, NULL, false, "add timings to each event of a stream" },
    { "samplers", LM_FIELD_ANY, A(samplers), 0, 0, NULL, false,
      "samplers in their order: array of names, or llama.cpp's letters" },
    { "explain_cache", LM_FIELD_BOOL, A(explain_cache), 0, 0, NULL, false,
      "report in `cache` where the prompt first differed from the cached prefix" },
    { "contributions", LM_FIELD_BOOL, A(contributions), 0, 0, NULL, false,
      "ensembles only: report in `ensemble` the log-probability that each model gives each token" },
    { "return_progress", LM_FIELD_BOOL, A(progress), 0, 0, NULL, false, "send events while the prompt is processed: prompt_progress" },
    { "verbose", LM_FIELD_BOOL, A(verbose), 0, 0, NULL, false, "return the prompt as the model sees it, in __verbose" },
    { "post_sampling_probs", LM_FIELD_BOOL, A(sampled), 0, 0, NULL, false,
      "return the probabilities that tokens were drawn with, after all samplers (/completion: prob, top_probs)" },
    { "sse_ping_interval", LM_FIELD_I32, A(ping), -1, 86400, NULL, false,
      "seconds without an event after which a stream sends a comment; -1: never" },
    { "t_max_predict_ms", LM_FIELD_I64, A(most_ms), -1, 9e15, NULL, false,
      "end the output this many milliseconds after its first token, once it contains a line feed; 0, -1: never" },
    { "timeout", LM_FIELD_DOUBLE, A(timeout), 0, 1e6, NULL, false,
      "seconds after which the request ends with the output so far and a warning; maximum and 0: --timeout of the server" },
    { "preserved_tokens", LM_FIELD_ARRAY, A(preserved), 0, 0, NULL, false, "control tokens, as strings, that are part of the output" },
    { "stop_token_ids", LM_FIELD_ARRAY, A(stop_ids), 0, 0, NULL, false, "token ids that end the output" },
    LM_REFUSED("min_tokens", "a minimum length cannot be set"), LM_REFUSED("bad_words", "use logit_bias"),
    LM_REFUSED("allowed_token_ids", "use grammar, or logit_bias"), LM_REFUSED("use_beam_search", "beam search is not available"),
    { "length_penalty", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "beam search is not available" },
    LM_REFUSED("early_stopping", "beam search is not available"), LM_REFUSED("logits_processors", "requests cannot supply code"),
    LM_REFUSED("custom_logit_processor", "requests cannot supply code"),
    LM_REFUSED("include_stop_str_in_output", "the output ends before a stop string"),
    LM_REFUSED("no_stop_trim", "the output ends before a stop string"),
    { "skip_special_tokens", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "use preserved_tokens" },
    LM_HARMLESS("spaces_between_special_tokens"), LM_REFUSED("truncate_prompt_tokens", "prompts are never truncated"),
    { "prompt_logprobs", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "use echo and logprobs of /v1/completions" },
    LM_REFUSED("logprob_token_ids", "log-probabilities are returned for the most probable tokens"),
    LM_REFUSED("repetition_detection", "use DRY"),
    LM_REFUSED("no_repeat_ngram_size", "use DRY"),
    { "tfs_z", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "tail-free sampling is not available" },
    LM_REFUSED("top_a", "use min_p"),
    { "adaptive_target", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "adaptive sampling is not available" },
    LM_HARMLESS("adaptive_decay"),
    { "penalize_nl", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "penalties treat line feeds like other tokens" },
    { "penalize_newline", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "penalties treat line feeds like other tokens" },
    LM_REFUSED("penalty_prompt", "penalties apply to the whole sequence"),
    { "t_max_prompt_ms", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "use timeout" },
    LM_REFUSED("image_data", "only text is supported"), LM_HARMLESS("backend_sampling"),
    LM_REFUSED("n_indent", "a minimum indentation cannot be set"),
    LM_HARMLESS("n_keep"), LM_HARMLESS("n_discard"),
    { "lora", LM_FIELD_ARRAY, A(lora), 0, 0, NULL, false,
      "low-rank adapters of this request: [{id, scale}, ...], ids from GET /lora-adapters; others have scale 0" },
    { 0 },
};

const lm_field lm_params_traced[] = {
    { "trace", LM_FIELD_OBJECT, A(trace), 0, 0, NULL, false,
      "trace each generated token: surprise (true: its probability, surprise, entropy and alternatives), and top, lens, lens_parts, attribution, "
      "norms, experts, attention, weights of POST /v1/trace; one prompt and one output" },
    { "intervene", LM_FIELD_ARRAY, A(intervene), 0, 0, NULL, false,
      "interventions while this output is generated, as for POST /v1/trace; requires --allow-interventions" },
    { 0 },
};

const lm_field lm_params_untraced[] = {
    LM_REFUSED("trace", "use /v1/chat/completions, /v1/completions or /completion"),
    LM_REFUSED("intervene", "use /v1/chat/completions, /v1/completions or /completion"),
    { 0 },
};

void lm_params_defaults(const lm_service *s, lm_params *a)
{
    *a = (lm_params){ .sampling = s->o.sampling, .slot = -1, .priority = LM_PRIORITY_NONE, .n = 1, .ping = s->o.ping,
                     .max_tokens = s->o.predict, .constraints.compact = true, .verbose = s->o.verbose,
                     .seed = s->o.sampling.seed > INT64_MAX ? -1 : (int64_t)s->o.sampling.seed };
}

/* ---- stops and biases ---- */

/* Read stop strings; empty ones are ignored. */
static lm_status read_stops(const json_t *stop, lm_prepared *parts, lm_error *e)
{
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1, bytes = 0, kept = 0;

    if (!stop)
        return LM_OK;
    if (!(parts->stops = calloc(n + 1, sizeof *parts->stops)))
        return lm_fail_memory(e, "stop strings", n * sizeof *parts->stops);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;

        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET, "'stop' must be a string or an array of strings without NUL characters");
        bytes += json_string_length(one);
        if (json_string_length(one))
            parts->stops[kept++] = json_string_value(one);
    }
    LM_TRY(lm_limit_check(LM_MOST_STOPS, kept, e));
    return lm_limit_check(LM_MOST_STOP_BYTES, bytes, e);
}

static lm_status read_stop_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_MOST_STOP_IDS, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "stop_token_ids", LM_NO_OFFSET, "element %zu is not a token id below %u", i, s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

static lm_status read_breakers(const json_t *list, lm_prepared *parts, lm_error *e)
{
    size_t n = json_array_size(list);

    if (!list)
        return LM_OK;
    LM_TRY(lm_limit_check(LM_MOST_BREAKERS, n, e));
    if (!(parts->breakers = calloc(n + 1, sizeof *parts->breakers)))
        return lm_fail_memory(e, "the sequence breakers", n * sizeof *parts->breakers);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);

        if (!json_string_length(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "dry_sequence_breakers", LM_NO_OFFSET, "element %zu must be a non-empty string", i);
        parts->breakers[i] = json_string_value(one);
    }
    parts->sampling.dry_breakers = parts->breakers;
    return LM_OK;
}

typedef struct biases { lm_logit_bias *items; size_t n, capacity; } biases;

static lm_status add_bias(const lm_service *s, biases *out, double id, const json_t *bias, lm_error *e)
{
    double value = json_is_false(bias) || json_is_null(bias) ? -(double)INFINITY : json_number_value(bias);

    if (isfinite(value) && !json_is_number(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "a bias must be a number, or false to exclude the token");
    if (!(id >= 0 && id < s->info.n_vocab) || id != floor(id))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "the token %.0f is outside the vocabulary of %u tokens", id,
                       s->info.n_vocab);
    if (json_is_number(bias) && !(value >= -1e6 && value <= 1e6))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "the bias %g is outside -1000000 to 1000000", value);
    LM_TRY(lm_limit_check(LM_MOST_BIASES, out->n + 1, e));
    if (out->n == out->capacity) {
        size_t more = out->capacity ? 2 * out->capacity : 64;
        lm_logit_bias *items = realloc(out->items, more * sizeof *items);
        if (!items)
            return lm_fail_memory(e, "logit biases", more * sizeof *items);
        out->items = items;
        out->capacity = more;
    }
    out->items[out->n++] = (lm_logit_bias){ .id = (lm_token)id, .bias = (float)value };
    return LM_OK;
}

/* Add a bias for each token of a text, as in llama-server. */
static lm_status add_biases(const lm_service *s, biases *out, const char *text, const json_t *bias, lm_error *e)
{
    lm_tokens ids = { 0 };
    lm_status status = lm_tokenize(s->tokenizer, text, strlen(text), 0, &ids, e);

    for (size_t i = 0; status == LM_OK && i < ids.n; i++)
        status = add_bias(s, out, ids.ids[i], bias, e);
    lm_tokens_free(&ids);
    return status;
}

static lm_status add_pairs(const lm_service *s, json_t *bias, biases *out, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(bias); i++) {
        const json_t *pair = json_array_get(bias, i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || (!json_is_integer(id) && !json_is_string(id)))
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "'logit_bias' must contain pairs [token id or string, bias]");
        LM_TRY(json_is_integer(id) ? add_bias(s, out, json_number_value(id), json_array_get(pair, 1), e)
                                   : add_biases(s, out, json_string_value(id), json_array_get(pair, 1), e));
    }
    return LM_OK;
}

/* Exclude the tokens that end a sequence, as in llama-server and lamina run. */
static lm_status add_ends(const lm_service *s, biases *out, lm_error *e)
{
    for (uint32_t i = 0; i < s->info.n_vocab; i++)
        if (lm_model_is_end(s->model, (lm_token)i))
            LM_TRY(add_bias(s, out, i, json_false(), e));
    return LM_OK;
}

static lm_status read_bias(const lm_service *s, json_t *bias, bool endless, lm_prepared *parts, lm_error *e)
{
    biases list = { 0 };
    lm_status status = LM_OK;
    const char *key;
    json_t *value;

    if (bias && !json_is_array(bias) && !json_is_object(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "'logit_bias' must be an object or an array");
    if (json_is_array(bias))
        status = add_pairs(s, bias, &list, e);
    json_object_foreach(bias, key, value) {
        char *end;
        double id = (double)strtoll(key, &end, 10);       /* "1.5" and "nan" are texts */
        if (status == LM_OK)
            status = *key && !*end ? add_bias(s, &list, id, value, e) : add_biases(s, &list, key, value, e);
    }
    if (endless && status == LM_OK)
        status = add_ends(s, &list, e);
    parts->sampling.bias = parts->bias = list.items;
    parts->sampling.n_bias = list.n;
    return status;
}

/* ---- order of samplers ---- */

static const struct { char letter; const char *theirs, *ours; } steps[] = {
    { 'e', "penalties", "penalties" }, { 'd', "dry", "dry" }, { 's', "top_n_sigma", "top_n_sigma" }, { 'k', "top_k", "top_k" },
    { 'y', "typ_p", "typ_p" }, { 0, "typical_p", "typ_p" }, { 'p', "top_p", "top_p" }, { 'm', "min_p", "min_p" }, { 'x', "xtc", "xtc" },
    { 't', "temperature", "temperature" },
};

/* Append the sampler named `text` (with `letters`: whose letter is the first character) to `out`. False: there is none. */
static bool add_step(const char *text, bool letters, lm_text *out)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (letters ? steps[i].letter == *text : strcmp(steps[i].theirs, text) == 0) {
            lm_text_printf(out, "%s%s", out->size ? ";" : "", steps[i].ours);
            return true;
        }
    return false;
}

static lm_status read_order(const json_t *samplers, lm_prepared *parts, lm_error *e)
{
    if (!samplers)
        return LM_OK;
    if (!json_is_array(samplers) && !json_is_string(samplers))
        return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "'samplers' must be an array of names or a string of letters");
    LM_TRY(lm_limit_check(LM_MOST_SAMPLERS, json_is_string(samplers) ? json_string_length(samplers) : json_array_size(samplers), e));
    for (const char *at = json_string_value(samplers); at && *at; at++)
        if (!add_step(at, true, &parts->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "no sampler has the letter %c: expected some of edskypmxt", *at);
    for (size_t i = 0; i < json_array_size(samplers); i++) {
        const char *name = json_string_value(json_array_get(samplers, i));
        if (!name || !add_step(name, false, &parts->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET,
                           "the sampler \"%.40s\" is unknown: expected some of penalties, dry, top_n_sigma,"
                           " top_k, typ_p, top_p, min_p, xtc, temperature", name ? name : "");
    }
    if (parts->order.failed)
        return lm_fail_memory(e, "samplers", parts->order.size);
    parts->sampling.order = parts->order.data ? parts->order.data : NULL;
    return LM_OK;
}

/* Collect the strings that are a single token; others are part of the output anyway. */
static lm_status read_preserved(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_MOST_PRESERVED, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        lm_tokens ids = { 0 };

        if (!json_is_string(text))
            return lm_fail(e, LM_USAGE, "preserved_tokens", LM_NO_OFFSET, "element %zu must be a string", i);
        lm_status status = lm_tokenize(s->tokenizer, json_string_value(text), json_string_length(text), 0, &ids, e);
        if (status == LM_OK && ids.n == 1)
            status = lm_tokens_add(out, ids.ids[0], e);
        lm_tokens_free(&ids);
        LM_TRY(status);
    }
    return LM_OK;
}

lm_status lm_params_prepare(const lm_call *c, const lm_params *a, lm_prepared *o, lm_error *e)
{
    const lm_service *s = c->service;
    double most = s->o.timeout;

    *o = (lm_prepared){ .sampling = a->sampling };
    if (a->n < 1)
        return lm_fail(e, LM_USAGE, "n", LM_NO_OFFSET, "'n' is 0; it must be from 1 to %d", LM_LIMIT_TEXTS);
    LM_TRY(lm_limit_check(LM_MOST_TEXTS, a->n, e));
    LM_TRY(read_stops(a->stop, o, e));
    LM_TRY(read_stop_ids(s, a->stop_ids, &o->stop_ids, e));
    if (json_is_number(json_object_get(c->body, "repetition_penalty")) && !json_is_number(json_object_get(c->body, "repeat_last_n")))
        o->sampling.repeat_last_n = -1;
    LM_TRY(read_breakers(a->breakers, o, e));
    LM_TRY(read_order(a->samplers, o, e));
    if (a->slot >= (int32_t)lm_schedule_slots(s->schedule))
        return lm_fail(e, LM_USAGE, "id_slot", LM_NO_OFFSET, "'id_slot' is %d; the server has %u slots, from 0 on", a->slot,
                       lm_schedule_slots(s->schedule));
    if (a->seed != -1)
        o->sampling.seed = (uint64_t)a->seed;
    else
        randombytes_buf(&o->sampling.seed, sizeof o->sampling.seed);
    LM_TRY(lm_loras_read(s, a->lora, &o->loras, e));
    lm_constraints constraints = a->constraints;
    if (!constraints.body)
        constraints.body = c->body;
    LM_TRY(lm_constraints_check(&constraints, e));
    LM_TRY(read_bias(s, a->logit_bias, a->ignore_eos && !lm_constraints_any(&a->constraints), o, e));
    LM_TRY(read_preserved(s, a->preserved, &o->shown, e));
    o->whitespace = lm_constraints_whitespace(&a->constraints);
    o->deadline = a->timeout > 0 && (most <= 0 || a->timeout < most) ? a->timeout : most;
    o->most_seconds = a->most_ms > 0 ? 1e-3 * (double)a->most_ms : 0;
    o->wanted_slot = (uint32_t)(a->slot + 1);
    o->priority = lm_call_priority(c, a->priority);
    o->sequence = (lm_sequence_options){ .shown = o->shown.ids, .n_shown = o->shown.n, .sampled = a->sampled, .max_tokens = a->max_tokens,
                                         .stops = o->stops, .stop_ids = o->stop_ids.ids, .n_stop_ids = o->stop_ids.n,
                                         .ignore_eos = a->ignore_eos };
    return LM_OK;
}

lm_status lm_params_grammar(const lm_call *c, const lm_params *a, const lm_prompts *prompts, lm_prepared *out, lm_error *e)
{
    lm_constraints constraints = a->constraints;

    for (size_t i = 0; i < prompts->n; i++)
        if (prompts->items[i].n)                         /* an empty prompt is rejected later */
            LM_TRY(lm_schedule_check(c->service->schedule, prompts->items[i].n, e));
    if (!constraints.body)
        constraints.body = c->body;
    return lm_constraints_compile(c->service, &constraints, &out->grammar, e);
}

void lm_prepared_free(lm_prepared *parts)
{
    free(parts->stops);
    free(parts->breakers);
    lm_tokens_free(&parts->stop_ids);
    free(parts->bias);
    free(parts->loras);
    lm_grammar_free(parts->grammar);
    lm_text_free(&parts->order);
    lm_tokens_free(&parts->shown);
}

/* ---- prompts ---- */

static lm_status read_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (json_is_string(id)) {                        /* llama.cpp: ids and strings mixed */
            LM_TRY(lm_tokenize(s->tokenizer, json_string_value(id), json_string_length(id), i ? 0 : LM_ADD_SPECIAL, out, e));
            continue;
        }
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "element %zu is not a token id below %u", i, s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

/* Append the text of content parts, in the form of messages. False: a part is not text. */
static bool content_text(const json_t *parts, lm_text *out)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));

        if (!json_is_string(text) || !type || strcmp(type, "text")) {
            lm_text_free(out);
            return false;
        }
        lm_text_add(out, json_string_value(text), json_string_length(text));
    }
    return true;
}

static lm_status read_prompt(const lm_service *s, const json_t *value, lm_tokens *out, lm_error *e)
{
    lm_text all = { 0 };
    const json_t *text = json_object_get(value, "prompt_string"), *media = json_object_get(value, "multimodal_data");

    if (json_is_string(value))
        return lm_tokenize(s->tokenizer, json_string_value(value), json_string_length(value), LM_ADD_SPECIAL, out, e);
    if (json_is_array(value))
        return read_ids(s, value, out, e);
    if (json_is_string(text) && !json_string_length(media) && !json_array_size(media))        /* llama.cpp's */
        return lm_tokenize(s->tokenizer, json_string_value(text), json_string_length(text), LM_ADD_SPECIAL, out, e);
    if (text || !content_text(json_object_get(value, "content"), &all))
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' may contain only text");
    if (all.size) {
        lm_status status = lm_tokenize(s->tokenizer, all.data, all.size, LM_ADD_SPECIAL, out, e);
        lm_text_free(&all);
        return status;
    }
    return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' must be a string, an array of token ids, or an array of those");
}

lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e)
{
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, json_array_size(value) - 1);
    bool many = json_is_array(first) || json_is_object(first) || (json_is_string(first) && !json_is_integer(last));

    *out = (lm_prompts){ 0 };
    if (!value)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is required");
    size_t n = many ? json_array_size(value) : 1;
    LM_TRY(lm_limit_check(most, n, e));
    if (!(out->items = calloc(n, sizeof *out->items)))
        return lm_fail_memory(e, "prompts", n * sizeof *out->items);
    for (out->n = 0; out->n < n;) {
        lm_tokens *at = out->items + out->n++;
        LM_TRY(read_prompt(s, many ? json_array_get(value, out->n - 1) : value, at, e));
        if (!at->n)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
    }
    return LM_OK;
}

lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e)
{
    if (!(p->items = calloc(1, sizeof *p->items)))
        return lm_fail_memory(e, "the prompt", sizeof *p->items);
    p->n = 1;
    *prompt = p->items;
    return LM_OK;
}

void lm_prompts_free(lm_prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        lm_tokens_free(p->items + i);
    free(p->items);
    *p = (lm_prompts){ 0 };
}
