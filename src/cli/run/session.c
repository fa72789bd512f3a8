/* session.c - a conversation that is continued from the keys and values of its earlier turns.
 *
 * An answer renders the whole conversation, and continues from what the cache holds of it (lm_chat_cache). An
 * lm_session owns everything that lm_session_close frees, and is used by one thread. */
#include "cli/run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_exact.h"
#include "cli/base/interrupt.h"
#include "cli/base/json_given.h"

/* ---- messages ---- */

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));

    return found && strcmp(found, role) == 0;
}

lm_status lm_session_add(lm_session *s, const char *role, const char *text, size_t n, lm_error *e)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", lm_json_of(text, n));
    bool system = strcmp(role, "system") == 0;

    if (!message)
        return lm_fail_memory(e, "a message", n);
    if (system)
        lm_session_drop_system(s);
    if (system ? json_array_insert_new(s->messages, 0, message) : json_array_append_new(s->messages, message))
        return lm_fail_memory(e, "a message", n);
    return LM_OK;
}

bool lm_session_drop(lm_session *s, const char *role)
{
    size_t n = json_array_size(s->messages);

    if (!n || !has_role(json_array_get(s->messages, n - 1), role))
        return false;
    json_array_remove(s->messages, n - 1);
    return true;
}

void lm_session_drop_system(lm_session *s)
{
    if (has_role(json_array_get(s->messages, 0), "system"))
        json_array_remove(s->messages, 0);
}

const char *lm_session_system(const lm_session *s)
{
    const json_t *first = json_array_get(s->messages, 0);

    return has_role(first, "system") ? json_string_value(json_object_get(first, "content")) : NULL;
}

void lm_session_reset(lm_session *s)
{
    json_t *first = json_incref(json_array_get(s->messages, 0));

    json_array_clear(s->messages);
    if (has_role(first, "system"))
        json_array_append(s->messages, first);
    json_decref(first);
}

/* ---- answers ---- */

lm_status lm_session_sampler(lm_session *s, lm_error *e)
{
    lm_sampler_options o;
    lm_model_info info;

    if (s->sampler)
        return LM_OK;
    LM_TRY(lm_sampling_options(s->cli, s->sampling, &o, e));
    o.seed += s->regenerations;
    lm_model_describe(s->model, &info);
    return lm_sampler_new(&o, info.n_vocab, lm_model_tokenizer(s->model), &s->sampler, e);
}

static lm_status generate(lm_session *s, const lm_tokens *ids, lm_generation *out, lm_error *e)
{
    lm_generate_options o = {
        .sequence = { .max_tokens = s->predict, .prompt_only = s->predict == 0, .stops = s->stops.items }
    };
    lm_display answer = { .model = s->model, .stream = !s->cli->json, .wrap = lm_out_wrap() };

    lm_drafting_sequence(s->draft, &s->drafting, &o.sequence);
    LM_TRY(lm_constraining_sequence(&s->constraining, ids, &o.sequence, e));
    return lm_display_run(&answer, s->engine, s->sampler, ids, s->cache, &o, out, e);
}

static lm_status answer(lm_session *s, lm_tokens *ids, lm_error *e)
{
    lm_generation out = { 0 };

    LM_TRY(lm_session_sampler(s, e));
    LM_TRY(lm_prompt_template_tokens(&s->chat, s->messages, ids, NULL, e));
    LM_TRY(generate(s, ids, &out, e));
    lm_generation_free(&s->last);
    s->last = out;
    s->answers++;
    s->read += out.n_prompt - out.n_reused;
    s->reused += out.n_reused;
    s->generated += out.ids.n;
    s->continued += lm_display_continued(&out);
    s->drafted += out.n_drafted;
    s->accepted += out.n_accepted;
    s->read_seconds += out.prompt_seconds;
    s->generate_seconds += out.generate_seconds;
    return lm_session_add(s, "assistant", out.text.data, out.text.size, e);
}

lm_status lm_session_answer(lm_session *s, lm_error *e)
{
    lm_tokens ids = { 0 };
    lm_status status = answer(s, &ids, e);

    lm_tokens_free(&ids);
    return status;
}

lm_status lm_session_regenerate(lm_session *s, lm_error *e)
{
    json_t *before = json_incref(json_array_get(s->messages, json_array_size(s->messages) - 1));
    lm_status status;

    if (!lm_session_drop(s, "assistant")) {
        json_decref(before);
        return lm_fail(e, LM_USAGE, "/regen", LM_NO_OFFSET, "no answer yet");
    }
    s->regenerations++;
    lm_sampler_free(s->sampler);
    s->sampler = NULL;
    status     = lm_session_answer(s, e);
    if (status == LM_OK)
        json_decref(before);
    else
        json_array_append_new(s->messages, before);
    return status;
}

/* ---- files ---- */

lm_status lm_session_save(const lm_session *s, const char *path, lm_error *e)
{
    lm_model_info info;
    lm_text text = { 0 };
    lm_status status;
    json_t *j;

    lm_model_describe(s->model, &info);
    j = json_pack("{s:s, s:O}", "model", info.name, "messages", s->messages);
    status = j ? lm_json_print_given(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER, &s->chat.wide, &text, e)
               : lm_fail_memory(e, path, 0);
    json_decref(j);
    if (status == LM_OK)
        status = lm_text_save(&text, path, e);
    lm_text_free(&text);
    return status;
}

/* Replace the conversation by `given`, converted to the form that templates expect, as the server does. */
static lm_status read_messages(lm_session *s, const json_t *given, lm_error *e)
{
    lm_text text = { 0 }, warnings = { 0 }, json = { 0 };
    lm_status status = lm_json_print_given(given, JSON_COMPACT | JSON_ENCODE_ANY, &s->chat.wide, &json, e);
    json_t *messages = NULL;

    if (status == LM_OK)
        status = lm_messages_read(json.data, json.size, &warnings, &text, e);
    if (status == LM_OK) {
        lm_text_add_wide_numbers(&s->chat.wide, text.data, text.size);
        messages = lm_json_given(text.data, text.size, JSON_ALLOW_NUL, NULL);
    }

    for (char *at = warnings.data, *end; at && (end = strchr(at, '\n')); at = end + 1)
        lm_warn("%.*s", (int)(end - at), at);
    if (messages) {
        json_decref(s->messages);
        s->messages = messages;
    } else if (status == LM_OK) {
        status = lm_fail_memory(e, "the conversation", text.size);
    }
    lm_text_free(&json);
    lm_text_free(&warnings);
    lm_text_free(&text);
    return status;
}

lm_status lm_session_load(lm_session *s, const char *path, lm_error *e)
{
    lm_text text = { 0 };
    json_error_t why = { 0 };
    char where[32];
    lm_status status = lm_read_file(path, &text, e);
    json_t *j = status == LM_OK
                    ? lm_json_given(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &why)
                    : NULL;
    const json_t *given;

    lm_text_add_wide_numbers(&s->chat.wide, text.data, text.size);
    lm_text_free(&text);
    if (status != LM_OK)
        return status;
    if (j) {
        given = json_object_get(j, "messages");
        status = read_messages(s, given ? given : json_null(), e);
    } else {
        snprintf(where, sizeof where, "line %d", why.line);
        status = lm_fail(e, LM_FAILED, where, LM_NO_OFFSET, "%s", why.text);
    }
    if (status != LM_OK)
        lm_fail_in(e, lm_input_name(path));
    json_decref(j);
    return status;
}

void lm_session_close(lm_session *s)
{
    lm_prompt_template_close(&s->chat);
    lm_generation_free(&s->last);
    lm_chat_cache_free(s->cache);
    json_decref(s->messages);
    lm_sampler_free(s->sampler);
    lm_drafting_close(&s->drafting);
    lm_constraining_close(&s->constraining);
    lm_engine_free(s->engine);
    lm_loras_close(&s->loras);
    lm_model_close(s->model);
}
