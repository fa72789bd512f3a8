#include "server/ask/asked.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/models/loras.h"

#define S(field) offsetof(lm_asked, sampling.field)
#define A(field) offsetof(lm_asked, field)


static const char *const as_usual[] = { "true", NULL };

const lm_field lm_asked_fields[] = {
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
    { "seed", LM_FIELD_I64, A(seed), -1, 9e15, NULL, false, "random seed; the same request and seed give the same output; -1: random" },
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
    { "min_tokens", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "a least length" },
    { "bad_words", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use logit_bias" },
    { "allowed_token_ids", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use grammar, or logit_bias" },
    { "use_beam_search", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "beam search" },
    { "length_penalty", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "beam search" },
    { "early_stopping", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "beam search" },
    { "logits_processors", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "programs of requests" },
    { "custom_logit_processor", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "programs of requests" },
    { "include_stop_str_in_output", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "the text ends before a stop string" },
    { "no_stop_trim", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "the text ends before a stop string" },
    { "skip_special_tokens", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "use preserved_tokens" },
    { "spaces_between_special_tokens", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "truncate_prompt_tokens", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "nothing is left out of a prompt" },
    { "prompt_logprobs", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "use echo and logprobs of /v1/completions" },
    { "logprob_token_ids", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "the most probable tokens are told" },
    { "repetition_detection", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use DRY" },
    { "no_repeat_ngram_size", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use DRY" },
    { "tfs_z", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "tail-free sampling" },
    { "top_a", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "use min_p" },
    { "adaptive_target", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "adaptive sampling" },
    { "adaptive_decay", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "penalize_nl", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "penalties count line feeds as they do other tokens" },
    { "penalize_newline", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "penalties count line feeds as they do other tokens" },
    { "penalty_prompt", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "penalties look at the text itself" },
    { "t_max_prompt_ms", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "use timeout" },
    { "image_data", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "only text is read" },
    { "backend_sampling", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "n_indent", LM_FIELD_REFUSED, 0, 0, 0, NULL, false, "no least indentation" },
    { "n_keep", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "n_discard", LM_FIELD_HARMLESS, 0, 0, 0, NULL, false, NULL },
    { "lora", LM_FIELD_ARRAY, A(lora), 0, 0, NULL, false,
      "low-rank adapters of this request: [{id, scale}, ...], ids from GET /lora-adapters; others have scale 0" },
    { 0 },
};

void lm_asked_defaults(const lm_service *s, lm_asked *a)
{
    *a = (lm_asked){ .sampling = s->o.sampling, .slot = -1, .priority = LM_PRIORITY_NONE, .n = 1, .ping = s->o.ping,
                     .max_tokens = s->o.predict, .limits.compact = true, .verbose = s->o.verbose,
                     .seed = s->o.sampling.seed > INT64_MAX ? -1 : (int64_t)s->o.sampling.seed };
}

/* ---- stops and biases ---- */

/* Empty ones ask for nothing. */
static lm_status read_stops(const json_t *stop, lm_asked_parts *parts, lm_error *e)
{
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1, bytes = 0, kept = 0;

    if (!stop)
        return LM_OK;
    if (!(parts->stops = calloc(n + 1, sizeof *parts->stops)))
        return lm_fail_memory(e, "stop strings", n * sizeof *parts->stops);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;

        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET, "expected a string, or an array of strings");
        bytes += json_string_length(one);
        if (json_string_length(one))
            parts->stops[kept++] = json_string_value(one);
    }
    LM_TRY(lm_limit_check(LM_MOST_STOPS, kept, e));
    return lm_limit_check(LM_MOST_STOP_BYTES, bytes, e);
}

static lm_status read_stop_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_MOST_STOPS, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "stop_token_ids", LM_NO_OFFSET, "element %zu is not a token id below %u", i, s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

static lm_status read_breakers(const json_t *list, lm_asked_parts *parts, lm_sampler_options *o, lm_error *e)
{
    size_t n = json_array_size(list);

    if (!list)
        return LM_OK;
    LM_TRY(lm_limit_check(LM_MOST_BREAKERS, n, e));
    if (!(parts->breakers = calloc(n + 1, sizeof *parts->breakers)))
        return lm_fail_memory(e, "texts that end a repetition", n * sizeof *parts->breakers);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);

        if (!json_string_length(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "dry_sequence_breakers", LM_NO_OFFSET, "element %zu is no text", i);
        parts->breakers[i] = json_string_value(one);
    }
    o->dry_breakers = parts->breakers;
    return LM_OK;
}

typedef struct biases { lm_logit_bias *items; size_t n, capacity; } biases;

static lm_status add_bias(const lm_service *s, biases *out, double id, const json_t *bias, lm_error *e)
{
    float value = json_is_false(bias) || json_is_null(bias) ? -INFINITY : (float)json_number_value(bias);

    if (isfinite(value) && !json_is_number(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "a bias is a number, or false: never");
    if (!(id >= 0 && id < s->info.n_vocab) || id != floor(id))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "token %.0f is outside the vocabulary of %u", id, s->info.n_vocab);
    if (isfinite(value) && !(value >= -1e6f && value <= 1e6f))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "%g is too large", (double)value);
    LM_TRY(lm_limit_check(LM_MOST_BIASES, out->n + 1, e));
    if (out->n == out->capacity) {
        size_t more = out->capacity ? 2 * out->capacity : 64;
        lm_logit_bias *items = realloc(out->items, more * sizeof *items);
        if (!items)
            return lm_fail_memory(e, "logit biases", more * sizeof *items);
        out->items = items;
        out->capacity = more;
    }
    out->items[out->n++] = (lm_logit_bias){ .id = (lm_token)id, .bias = value };
    return LM_OK;
}

/* Of a text: of each of its tokens, as in llama-server. */
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
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "expected pairs [id or text, bias]");
        LM_TRY(json_is_integer(id) ? add_bias(s, out, json_number_value(id), json_array_get(pair, 1), e)
                                   : add_biases(s, out, json_string_value(id), json_array_get(pair, 1), e));
    }
    return LM_OK;
}

/* Those that end a text are never chosen: as llama-server and lamina run have it. */
static lm_status add_ends(const lm_service *s, biases *out, lm_error *e)
{
    for (uint32_t i = 0; i < s->info.n_vocab; i++)
        if (lm_model_is_end(s->model, (lm_token)i))
            LM_TRY(add_bias(s, out, i, json_false(), e));
    return LM_OK;
}

static lm_status read_bias(const lm_service *s, json_t *bias, bool endless, lm_asked_parts *parts, lm_sampler_options *o, lm_error *e)
{
    biases list = { 0 };
    lm_status status = LM_OK;
    const char *key;
    json_t *value;

    if (bias && !json_is_array(bias) && !json_is_object(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "expected an object or an array");
    if (json_is_array(bias))
        status = add_pairs(s, bias, &list, e);
    json_object_foreach(bias, key, value) {
        char *end;
        double id = strtod(key, &end);
        if (status == LM_OK)
            status = *key && !*end ? add_bias(s, &list, id, value, e) : add_biases(s, &list, key, value, e);
    }
    if (endless && status == LM_OK)
        status = add_ends(s, &list, e);
    o->bias = parts->bias = list.items;
    o->n_bias = list.n;
    return status;
}

/* ---- the order of sampling ---- */

static const struct { char letter; const char *theirs, *ours; } steps[] = {
    { 'e', "penalties", "penalties" }, { 'd', "dry", "dry" }, { 's', "top_n_sigma", "top_n_sigma" }, { 'k', "top_k", "top_k" },
    { 'y', "typ_p", "typ_p" }, { 0, "typical_p", "typ_p" }, { 'p', "top_p", "top_p" }, { 'm', "min_p", "min_p" }, { 'x', "xtc", "xtc" },
    { 't', "temperature", "temperature" },
};

/* Whether `text` is one of the steps, by its name or, `letters`, by its first letter: appended to `out`. */
static bool add_step(const char *text, bool letters, lm_text *out)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (letters ? steps[i].letter == *text : strcmp(steps[i].theirs, text) == 0) {
            lm_text_printf(out, "%s%s", out->size ? ";" : "", steps[i].ours);
            return true;
        }
    return false;
}

static lm_status read_order(const json_t *samplers, lm_asked_parts *parts, lm_sampler_options *o, lm_error *e)
{
    if (!samplers)
        return LM_OK;
    if (!json_is_array(samplers) && !json_is_string(samplers))
        return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "expected an array of names, or a string of letters");
    for (const char *at = json_string_value(samplers); at && *at; at++)
        if (!add_step(at, true, &parts->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "no sampler has the letter '%c': expected some of edskypmxt", *at);
    for (size_t i = 0; i < json_array_size(samplers); i++) {
        const char *name = json_string_value(json_array_get(samplers, i));
        if (!name || !add_step(name, false, &parts->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "unknown sampler \"%.40s\": expected some of penalties, dry, top_n_sigma,"
                           " top_k, typ_p, top_p, min_p, xtc, temperature", name ? name : "");
    }
    if (parts->order.failed)
        return lm_fail_memory(e, "samplers", parts->order.size);
    o->order = parts->order.data ? parts->order.data : NULL;
    return LM_OK;
}

/* Those that are one token; others are text anyway. */
static lm_status read_preserved(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_MOST_PRESERVED, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        lm_tokens ids = { 0 };

        if (!json_is_string(text))
            return lm_fail(e, LM_USAGE, "preserved_tokens", LM_NO_OFFSET, "element %zu is no string", i);
        lm_status status = lm_tokenize(s->tokenizer, json_string_value(text), json_string_length(text), 0, &ids, e);
        if (status == LM_OK && ids.n == 1)
            status = lm_tokens_add(out, ids.ids[0], e);
        lm_tokens_free(&ids);
        LM_TRY(status);
    }
    return LM_OK;
}

lm_status lm_asked_options(const lm_call *c, const lm_asked *a, lm_turn_options *o, lm_asked_parts *parts, lm_error *e)
{
    *parts = (lm_asked_parts){ 0 };
    if (a->n < 1)
        return lm_fail(e, LM_USAGE, "n", LM_NO_OFFSET, "0 texts");
    LM_TRY(lm_limit_check(LM_MOST_TEXTS, a->n, e));
    LM_TRY(read_stops(a->stop, parts, e));
    LM_TRY(read_stop_ids(c->service, a->stop_ids, &parts->stop_ids, e));
    o->sampling = a->sampling;
    if (json_is_number(json_object_get(c->body, "repetition_penalty")) && !json_is_number(json_object_get(c->body, "repeat_last_n")))
        o->sampling.repeat_last_n = -1;
    LM_TRY(read_breakers(a->breakers, parts, &o->sampling, e));
    LM_TRY(read_order(a->samplers, parts, &o->sampling, e));
    if (a->slot >= (int32_t)lm_schedule_slots(c->service->schedule))
        return lm_fail(e, LM_USAGE, "id_slot", LM_NO_OFFSET, "the server has %u slots", lm_schedule_slots(c->service->schedule));
    if (a->seed >= 0)
        o->sampling.seed = (uint64_t)a->seed;
    else
        randombytes_buf(&o->sampling.seed, sizeof o->sampling.seed);
    LM_TRY(lm_loras_read(c->service, a->lora, &parts->loras, e));
    o->loras = parts->loras;
    LM_TRY(lm_allowed_check(&a->limits, e));
    parts->limits = &a->limits;
    LM_TRY(read_bias(c->service, a->logit_bias, a->ignore_eos && !lm_allowed_limits(&a->limits), parts, &o->sampling, e));
    o->whitespace = lm_allowed_whitespace(&a->limits);
    o->n = a->n;
    o->stream = a->stream;
    o->no_cache = a->no_cache;
    o->explain_cache = a->explain_cache;
    o->contributions = a->contributions;
    o->progress = a->progress;
    o->verbose = a->verbose;
    o->timings = a->timings;
    o->ping = a->ping;
    o->deadline = a->timeout > 0 && (c->service->o.timeout <= 0 || a->timeout < c->service->o.timeout) ? a->timeout : c->service->o.timeout;
    o->most_seconds = a->most_ms > 0 ? 1e-3 * (double)a->most_ms : 0;
    o->wanted_slot = (uint32_t)(a->slot + 1);
    o->priority = lm_call_priority(c, a->priority);
    LM_TRY(read_preserved(c->service, a->preserved, &parts->shown, e));
    o->sequence.shown = parts->shown.ids;
    o->sequence.n_shown = parts->shown.n;
    o->sequence.sampled = a->sampled;
    o->sequence.max_tokens = a->max_tokens;
    o->sequence.stops = parts->stops;
    o->sequence.stop_ids = parts->stop_ids.ids;
    o->sequence.n_stop_ids = parts->stop_ids.n;
    o->sequence.ignore_eos = a->ignore_eos;
    return LM_OK;
}

lm_status lm_asked_grammar(const lm_call *c, lm_asked_parts *parts, const lm_tokens *prompts, size_t n, lm_turn_options *o, lm_error *e)
{
    for (size_t i = 0; i < n; i++)
        if (prompts[i].n)                                /* that it is empty is said later */
            LM_TRY(lm_schedule_check(c->service->schedule, prompts[i].n, e));
    lm_allowed limits = *parts->limits;
    if (!limits.body)
        limits.body = c->body;
    LM_TRY(lm_allowed_compile(c->service, &limits, &parts->grammar, e));
    o->grammar = parts->grammar;
    return LM_OK;
}

void lm_asked_free(lm_asked_parts *parts)
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

/* Of parts as messages have them. False: one is no text. */
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
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "only text is read");
    if (all.size) {
        lm_status status = lm_tokenize(s->tokenizer, all.data, all.size, LM_ADD_SPECIAL, out, e);
        lm_text_free(&all);
        return status;
    }
    return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "expected a string, an array of token ids, or an array of those");
}

lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e)
{
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, json_array_size(value) - 1);
    bool many = json_is_array(first) || json_is_object(first) || (json_is_string(first) && !json_is_integer(last));

    *out = (lm_prompts){ 0 };
    if (!value)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "required and missing");
    size_t n = many ? json_array_size(value) : 1;
    LM_TRY(lm_limit_check(most, n, e));
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
