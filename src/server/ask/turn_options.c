/* turn_options.c - the options of a turn, from the values of its fields to the form in which the sampler and
 * the schedule take them: stop strings, biases, the order of samplers, limits of time. Read from
 * lm_turn_options_read upwards. */
#include "server/ask/turn_stages.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/models/loras.h"
#include "server/front/memory.h"

/* ---- stops and biases ---- */

/* Read stop strings; empty ones are ignored. */
static lm_status read_stops(lm_turn *t, lm_error *e)
{
    json_t *stop = t->body.stop;
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1, bytes = 0, kept = 0;

    if (!stop)
        return LM_OK;
    if (!(t->stops = lm_memory_zero(n + 1, sizeof *t->stops)) || !(t->stop_texts = json_array()))
        return lm_fail_memory(e, "stop strings", n * sizeof *t->stops);
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;

        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "stop", LM_NO_OFFSET,
                           "'stop' must be a string or an array of strings without NUL characters");
        bytes += json_string_length(one);
        if (!json_string_length(one))
            continue;
        if (json_array_append(t->stop_texts, one) != 0)
            return lm_fail_memory(e, "stop strings", bytes);
        t->stops[kept++] = json_string_value(one);
    }
    LM_TRY(lm_limit_check(LM_LIMIT_ID_STOPS, kept, e));
    return lm_limit_check(LM_LIMIT_ID_STOP_BYTES, bytes, e);
}

static lm_status read_stop_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_LIMIT_ID_STOP_IDS, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "stop_token_ids", LM_NO_OFFSET,
                           "element %zu is not a token id below %u", i, s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

static lm_status read_breakers(lm_turn *t, lm_error *e)
{
    const json_t *list = t->body.breakers;
    size_t n = json_array_size(list);

    if (!list)
        return LM_OK;
    LM_TRY(lm_limit_check(LM_LIMIT_ID_BREAKERS, n, e));
    if (!(t->breakers = lm_memory_zero(n + 1, sizeof *t->breakers)))
        return lm_fail_memory(e, "the sequence breakers", n * sizeof *t->breakers);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);

        if (!json_string_length(one) || strlen(json_string_value(one)) != json_string_length(one))
            return lm_fail(e, LM_USAGE, "dry_sequence_breakers", LM_NO_OFFSET,
                           "element %zu must be a non-empty string", i);
        t->breakers[i] = json_string_value(one);
    }
    t->sampling.dry_breakers = t->breakers;
    return LM_OK;
}

typedef struct biases { lm_logit_bias *items; size_t n, capacity; } biases;

static lm_status add_bias(const lm_service *s, biases *out, double id, const json_t *bias, lm_error *e)
{
    double value = json_is_false(bias) || json_is_null(bias) ? -(double)INFINITY : json_number_value(bias);

    if (isfinite(value) && !json_is_number(bias))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET,
                       "a bias must be a number, or false to exclude the token");
    if (!(id >= 0 && id < s->info.n_vocab) || id != floor(id))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET,
                       "the token %.0f is outside the vocabulary of %u tokens", id, s->info.n_vocab);
    if (json_is_number(bias) && !(value >= -1e6 && value <= 1e6))
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "the bias %g is outside -1000000 to 1000000",
                       value);
    LM_TRY(lm_limit_check(LM_LIMIT_ID_BIASES, out->n + 1, e));
    if (out->n == out->capacity) {
        size_t more = out->capacity ? 2 * out->capacity : 64;
        lm_logit_bias *items = lm_memory_grow(out->items, out->n * sizeof *items, more * sizeof *items);
        if (!items)
            return lm_fail_memory(e, "logit biases", more * sizeof *items);
        out->items = items;
        out->capacity = more;
    }
    out->items[out->n++] = (lm_logit_bias){ .id = (lm_token)id, .bias = (float)value };
    return LM_OK;
}

/* Add a bias for each token of a text, as in llama-server. */
static lm_status add_biases(const lm_service *s, biases *out, const char *text, const json_t *bias,
                            lm_error *e)
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
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET,
                           "'logit_bias' must contain pairs [token id or string, bias]");
        LM_TRY(json_is_integer(id) ? add_bias(s, out, json_number_value(id), json_array_get(pair, 1), e)
                                   : add_biases(s, out, json_string_value(id), json_array_get(pair, 1), e));
    }
    return LM_OK;
}

static lm_status read_bias(const lm_service *s, lm_turn *t, lm_error *e)
{
    json_t *bias = t->body.logit_bias;
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
    t->sampling.bias = t->bias = list.items;
    t->sampling.n_bias = list.n;
    return status;
}

/* ---- order of samplers ---- */

static const struct { char letter; const char *theirs, *ours; } steps[] = {
    { 'e', "penalties", "penalties" }, { 'd', "dry", "dry" }, { 's', "top_n_sigma", "top_n_sigma" },
    { 'k', "top_k", "top_k" }, { 'y', "typ_p", "typ_p" }, { 0, "typical_p", "typ_p" },
    { 'p', "top_p", "top_p" }, { 'm', "min_p", "min_p" }, { 'x', "xtc", "xtc" },
    { 't', "temperature", "temperature" },
};

/* Append the sampler named `text` (with `letters`: whose letter is the first character) to `out`. False:
 * there is none. */
static bool add_step(const char *text, bool letters, lm_text *out)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (letters ? steps[i].letter == *text : strcmp(steps[i].theirs, text) == 0) {
            lm_text_printf(out, "%s%s", out->size ? ";" : "", steps[i].ours);
            return true;
        }
    return false;
}

static lm_status read_order(lm_turn *t, lm_error *e)
{
    const json_t *samplers = t->body.samplers;

    if (!samplers)
        return LM_OK;
    if (!json_is_array(samplers) && !json_is_string(samplers))
        return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET,
                       "'samplers' must be an array of names or a string of letters");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_SAMPLERS,
                          json_is_string(samplers) ? json_string_length(samplers) : json_array_size(samplers),
                          e));
    for (const char *at = json_string_value(samplers); at && *at; at++)
        if (!add_step(at, true, &t->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET,
                           "no sampler has the letter %c: expected some of edskypmxt", *at);
    for (size_t i = 0; i < json_array_size(samplers); i++) {
        const char *name = json_string_value(json_array_get(samplers, i));
        if (!name || !add_step(name, false, &t->order))
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET,
                           "the sampler \"%.40s\" is unknown: expected some of penalties, dry, top_n_sigma,"
                           " top_k, typ_p, top_p, min_p, xtc, temperature", name ? name : "");
    }
    if (t->order.failed)
        return lm_fail_memory(e, "samplers", t->order.size);
    t->sampling.order = t->order.data ? t->order.data : NULL;
    return LM_OK;
}

/* Collect the strings that are a single token; others are part of the output anyway. */
static lm_status read_preserved(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    LM_TRY(lm_limit_check(LM_LIMIT_ID_PRESERVED, json_array_size(list), e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        lm_tokens ids = { 0 };

        if (!json_is_string(text))
            return lm_fail(e, LM_USAGE, "preserved_tokens", LM_NO_OFFSET, "element %zu must be a string", i);
        lm_status status = lm_tokenize(s->tokenizer, json_string_value(text), json_string_length(text), 0,
                                       &ids, e);
        if (status == LM_OK && ids.n == 1)
            status = lm_tokens_add(out, ids.ids[0], e);
        lm_tokens_free(&ids);
        LM_TRY(status);
    }
    return LM_OK;
}

static lm_status read_seed_and_slot(const lm_service *s, lm_turn *t, lm_error *e)
{
    if (t->slot >= (int32_t)lm_schedule_slots(s->schedule))
        return lm_fail(e, LM_USAGE, "id_slot", LM_NO_OFFSET,
                       "'id_slot' is %d; the server has %u slots, from 0 on", t->slot,
                       lm_schedule_slots(s->schedule));
    if (t->seed != -1)
        t->sampling.seed = (uint64_t)t->seed;
    else
        randombytes_buf(&t->sampling.seed, sizeof t->sampling.seed);
    t->seed = (int64_t)t->sampling.seed;
    return LM_OK;
}

lm_status lm_turn_options_read(lm_call *c, lm_turn *t, lm_error *e)
{
    const lm_service *s = c->service;
    double max = s->o.timeout;

    if (t->n < 1)
        return lm_fail(e, LM_USAGE, "n", LM_NO_OFFSET, "'n' is 0; it must be from 1 to %d", LM_LIMIT_TEXTS);
    LM_TRY(lm_limit_check(LM_LIMIT_ID_TEXTS, t->n, e));
    LM_TRY(read_stops(t, e));
    LM_TRY(read_stop_ids(s, t->body.stop_ids, &t->stop_ids, e));
    if (json_is_number(json_object_get(c->body, "repetition_penalty")) &&
        !json_is_number(json_object_get(c->body, "repeat_last_n")))
        t->sampling.repeat_last_n = -1;
    LM_TRY(read_breakers(t, e));
    LM_TRY(read_order(t, e));
    LM_TRY(read_seed_and_slot(s, t, e));
    LM_TRY(lm_loras_read(s, t->body.lora, &t->loras, e));
    if (!t->constraints.body)
        t->constraints.body = c->body;
    LM_TRY(lm_constraints_check(&t->constraints, e));
    LM_TRY(read_bias(s, t, e));
    LM_TRY(read_preserved(s, t->body.preserved, &t->shown, e));
    t->whitespace = lm_constraints_whitespace(&t->constraints);
    t->deadline = t->timeout > 0 && (max <= 0 || t->timeout < max) ? t->timeout : max;
    t->schedule_priority = lm_call_priority(c, t->priority);
    if (!t->ping)
        t->ping = 1;
    return LM_OK;
}
