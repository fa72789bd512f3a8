/* ollama_answer.c - the response to /api/chat and /api/generate. Times are in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ask/token_json.h"
#include "server/ask/writer.h"
#include "server/dialects/ollama.h"

json_t *lm_ollama_date(const struct timespec *t)
{
    struct tm utc;
    char text[32];

    gmtime_r(&t->tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    return json_sprintf("%s.%09ldZ", text, t->tv_nsec);
}

json_t *lm_ollama_moment(double seconds)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)(seconds < 1e9 ? seconds : 1e9);
    return lm_ollama_date(&t);
}

static json_t *piece(const lm_turn *t, const char *text, size_t n, bool done)
{
    const lm_ollama_turn *own = (const lm_ollama_turn *)t;
    json_t *o = json_pack("{s:s, s:o, s:b}", "model", t->service->name, "created_at", lm_ollama_moment(0),
                          "done", done);

    if (own->chat)
        json_object_set_new(o, "message", json_pack("{s:s, s:s%}", "role", "assistant", "content", text, n));
    else
        json_object_set_new(o, "response", json_stringn(text, n));
    return o;
}

/* Set a member next to the text: of the message (/api/chat) or of the document (/api/generate). */
static void set_beside(const lm_turn *t, json_t *o, const char *name, json_t *value)
{
    const lm_ollama_turn *own = (const lm_ollama_turn *)t;

    json_object_set_new(own->chat ? json_object_get(o, "message") : o, name, value);
}

/* Return a tool call in ollama's format; NULL: it was cut off. */
static json_t *call_json(const json_t *call, size_t i)
{
    json_t *arguments = lm_turn_arguments(call);

    return arguments ? json_pack("{s:{s:I, s:O, s:o}}", "function", "index", (json_int_t)i, "name",
                                 json_object_get(call, "name"), "arguments", arguments)
                     : NULL;
}

static void set_calls(const lm_turn *t, json_t *o, const json_t *calls, size_t from)
{
    json_t *list = json_array(), *one;

    for (size_t i = from; i < json_array_size(calls); i++)
        if ((one = call_json(json_array_get(calls, i), i)))
            json_array_append_new(list, one);
    if (json_array_size(list))
        set_beside(t, o, "tool_calls", json_incref(list));
    json_decref(list);
}

static json_int_t nanoseconds(double seconds)
{
    return (json_int_t)(1e9 * seconds);
}

static json_t *last(const lm_turn *t, const lm_choice *c, const char *text, size_t n)
{
    const lm_usage *u = &c->usage;
    json_t *o = piece(t, text, n, true);
    double read = u->first_seconds > u->queue_seconds ? u->first_seconds - u->queue_seconds : 0;
    double wrote = u->first_seconds > 0 ? u->seconds - u->first_seconds : 0;

    json_object_set_new(o, "done_reason",
                        json_string(strcmp(lm_turn_reason(c), "length") ? "stop" : "length"));
    json_object_set_new(o, "total_duration", json_integer(nanoseconds(u->seconds)));
    json_object_set_new(o, "load_duration", json_integer(0));
    json_object_set_new(o, "prompt_eval_count", json_integer((json_int_t)u->n_prompt));
    json_object_set_new(o, "prompt_eval_duration", json_integer(nanoseconds(read)));
    json_object_set_new(o, "eval_count", json_integer((json_int_t)u->n_tokens));
    json_object_set_new(o, "eval_duration", json_integer(nanoseconds(wrote)));
    lm_turn_extras(t, o);
    return o;
}

/* Add and clear the log-probabilities of tokens that were not sent yet. */
static void set_logprobs(const lm_turn *t, lm_choice *c, json_t *o)
{
    if (!json_array_size(c->tokens))
        return;
    json_object_set_new(o, "logprobs", lm_token_logprobs(t->service->tokenizer, c->tokens));
    json_array_clear(c->tokens);
}

static void ollama_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    json_t *o = piece(t, text, n, false);

    set_logprobs(t, c, o);
    lm_turn_line(t, o);
}

/* Send reasoning, and each complete tool call, as a separate line. */
static void ollama_part(lm_turn *t, lm_choice *c, const lm_answer_event *event)
{
    json_t *o = NULL;

    if (event->kind == LM_ANSWER_REASONING) {
        o = piece(t, "", 0, false);
        set_beside(t, o, "thinking", json_stringn(event->text, event->size));
    } else if (event->kind == LM_ANSWER_CALL_END) {
        o = piece(t, "", 0, false);
        set_calls(t, o, c->calls, json_array_size(c->calls) - 1);
    }
    if (o)
        lm_turn_line(t, o);
}

static void ollama_end(lm_turn *t, lm_choice *c)
{
    json_t *o = last(t, c, "", 0);

    set_logprobs(t, c, o);
    lm_turn_line(t, o);
}

static void ollama_finish(lm_turn *t)
{
    lm_choice *c = t->choices;
    json_t *o;

    if (t->stream)
        return;
    o = last(t, c, c->text.data ? c->text.data : "", c->text.size);
    if (c->reasoning.size)
        set_beside(t, o, "thinking", json_stringn(c->reasoning.data, c->reasoning.size));
    set_calls(t, o, c->calls, 0);
    set_logprobs(t, c, o);
    lm_turn_line(t, o);
}

static void ollama_fault(lm_turn *t, const lm_error *e)
{
    lm_turn_line(t, lm_fault_json(LM_DIALECT_OLLAMA, 0, e));
}

const lm_writer lm_ollama_writer = { .dialect = LM_DIALECT_OLLAMA, .type = "application/x-ndjson",
                                     .id_prefix = "ollama-", .text = ollama_text, .part = ollama_part,
                                     .end = ollama_end, .finish = ollama_finish, .fault = ollama_fault };
