/* turn_stream.c - the stream of a turn and its end: the events of its replies become content of its choices,
 * which the dialect's writer formats. Called by the thread of the front that holds the connection. Read from
 * pump_replies upwards, then `done`. */
#include "server/ask/turn_stages.h"
#include "server/front/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"

/* ---- events ---- */

static void send_headers(lm_turn *t)
{
    if (t->headers_sent)
        return;
    t->headers_sent = true;
    lm_exchange_head(t->x, 200, t->writer->type);
    lm_exchange_add_header(t->x, "Cache-Control", "no-cache");
    lm_exchange_add_header(t->x, "X-Accel-Buffering", "no");
    lm_exchange_stream(t->x);
    if (t->writer->begin)
        t->writer->begin(t);
}

static void fail(lm_turn *t, const lm_error *why)
{
    lm_error e = *why;

    lm_turn_name_constraint(t, e.code, &e);
    if (t->headers_sent) {
        t->writer->fault(t, &e);
        lm_exchange_end(t->x);
    } else {
        if (lm_fault_is_late(why))
            lm_fail(&e, LM_LIMIT, "timeout", LM_NO_OFFSET, "nothing was generated within %g s", t->deadline);
        lm_answer_fault(t->x, t->writer->dialect, lm_fault_is_late(why) ? 503 : 0, 0, &e);
    }
    for (size_t i = 0; i < t->n_choices; i++)
        if (t->choices[i].reply)
            lm_reply_cancel(t->choices[i].reply);
}

static void add_contribution(lm_choice *c, uint32_t models, lm_token id)
{
    double logprobs[1 + LM_MIXTURE_MODELS];
    json_t *each = json_array();

    if (lm_reply_contribution(c->reply, c->n_tokens, logprobs, NULL) == LM_OK) {
        for (uint32_t i = 0; i < models; i++)
            json_array_append_new(each, json_real(isinf(logprobs[1 + i]) ? -1e300 : logprobs[1 + i]));
        json_array_append_new(c->contributions, json_pack("{s:i, s:f, s:O}", "id", id, "logprob", logprobs[0],
                                                          "members", each));
    }
    json_decref(each);
}

static void add_token(const lm_turn *t, lm_choice *c, const lm_event *event)
{
    json_t *top;

    if (c->contributions)
        add_contribution(c, t->service->o.mixture.n, event->id);
    if (!c->n_tokens++)
        c->first = lm_clock_seconds();
    if (!c->tokens)
        return;
    top = json_array();
    for (uint32_t i = 0; i < event->n_top && event->top[i].id >= 0; i++)
        json_array_append_new(top, json_pack("{s:i, s:f}", "id", event->top[i].id, "logprob",
                                             (double)event->top[i].logprob));
    json_array_append_new(c->tokens, json_pack("{s:i, s:f, s:o}", "id", event->id, "logprob",
                                               (double)event->logprob, "top", top));
}

/* Keep or send the trace of the token. Returns false if it is missing for lack of memory. */
static bool add_trace(lm_turn *t, lm_choice *c)
{
    json_t *o = lm_traced_next(t->traced), *token = json_object_get(o, "token");

    if (!o)
        return false;
    if (!t->shows_surprise) {
        json_object_del(token, "p");
        json_object_del(token, "surprise");
        json_object_del(token, "entropy");
        json_object_del(token, "top");
    }
    if (!t->stream)
        return json_array_append_new(c->trace, o) == 0;
    send_headers(t);
    json_object_set_new(o, "index", json_integer((json_int_t)c->index));
    t->writer->trace(t, c, o);
    return true;
}

/* Whether the writer gets each piece. */
static bool sends_pieces(const lm_turn *t)
{
    return t->stream || t->writer->always;
}

/* Pass text of the answer on: to the writer, or to the choice. */
static void add_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    if (t->stream)
        send_headers(t);
    if (sends_pieces(t))
        t->writer->text(t, c, text, n);
    else
        lm_text_add(&c->text, text, n);
}

static void add_call(lm_choice *c, const lm_answer_event *event)
{
    if (!c->calls)
        c->calls = json_array();
    json_array_append_new(c->calls, json_pack("{s:s, s:s%, s:s}", "id", event->id, "name", event->text,
                                              event->size, "arguments", ""));
    lm_text_clear(&c->arguments);
}

static void end_call(const lm_choice *c)
{
    json_t *call = json_array_get(c->calls, json_array_size(c->calls) - 1);
    const lm_text *text = &c->arguments;

    json_object_set_new(call, "arguments", json_stringn(text->data ? text->data : "", text->size));
}

typedef struct listener { lm_turn *t; lm_choice *c; } listener;

/* What the parser of answers finds in the text. */
static void on_answer(void *arg, const lm_answer_event *event)
{
    lm_turn *t = ((listener *)arg)->t;
    lm_choice *c = ((listener *)arg)->c;

    if (t->stream)
        send_headers(t);
    switch (event->kind) {
    case LM_ANSWER_CONTENT:
        add_text(t, c, event->text, event->size);
        return;
    case LM_ANSWER_REASONING:
        c->n_reasoning = c->n_tokens;
        if (!sends_pieces(t))
            lm_text_add(&c->reasoning, event->text, event->size);
        break;
    case LM_ANSWER_CALL:      add_call(c, event); break;
    case LM_ANSWER_ARGUMENTS: lm_text_add(&c->arguments, event->text, event->size); break;
    case LM_ANSWER_CALL_END:  end_call(c); break;
    default:                  break;
    }
    if (sends_pieces(t) && t->writer->part)
        t->writer->part(t, c, event);
}

static json_t *progress_json(const lm_turn *t, const lm_event *event)
{
    return json_pack("{s:I, s:I, s:I, s:f}", "total", (json_int_t)event->total, "cache",
                     (json_int_t)t->choices->usage.n_cached, "processed", (json_int_t)event->done, "time_ms",
                     1e3 * (lm_clock_seconds() - t->began));
}

/* Whether the sequence ended at its deadline and has tokens. */
static bool is_past(const lm_choice *c, const lm_event *event)
{
    return event->stop == LM_STOP_FAILED && lm_fault_is_late(event->error) && c->n_tokens;
}

/* Whether the sequence failed or was cancelled for another reason than a time limit. */
static bool is_fault(const lm_choice *c, const lm_event *event)
{
    return (event->stop == LM_STOP_FAILED && !is_past(c, event)) ||
           (event->stop == LM_STOP_CANCELLED && !c->late);
}

static void warn_of_time(lm_turn *t)
{
    char text[80];

    if (t->past_deadline)
        return;
    t->past_deadline = true;
    snprintf(text, sizeof text, "timeout: the output ends after %g s", t->deadline);
    if (!t->warnings)
        t->warnings = json_array();
    json_array_append_new(t->warnings, json_string(text));
}

static void check_time_limit(const lm_turn *t, lm_choice *c)
{
    if (t->max_ms <= 0 || c->late || !c->new_line ||
        lm_clock_seconds() - c->first < 1e-3 * (double)t->max_ms)
        return;
    c->late = true;
    lm_reply_cancel(c->reply);
}

static bool on_token(lm_turn *t, lm_choice *c, const lm_event *event)
{
    lm_error e;

    add_token(t, c, event);
    if (!t->shows_trace || add_trace(t, c))
        return true;
    lm_fail_memory(&e, "a trace", 0);
    fail(t, &e);
    return false;
}

static bool on_prompt(lm_turn *t, lm_choice *c, const lm_event *event)
{
    if (!t->stream || !t->writer->progress)
        return true;
    send_headers(t);
    t->writer->progress(t, c, progress_json(t, event));
    return true;
}

static bool on_text(lm_turn *t, lm_choice *c, const lm_event *event)
{
    c->new_line |= memchr(event->text, '\n', event->size) != NULL;
    if (c->answer)
        lm_answer_feed(c->answer, event->text, event->size, on_answer, &(listener){ t, c }, NULL);
    else
        add_text(t, c, event->text, event->size);
    check_time_limit(t, c);
    return true;
}

static bool on_end(lm_turn *t, lm_choice *c, const lm_event *event, const lm_usage *usage)
{
    lm_error why = { 0 };

    if (is_fault(c, event)) {
        lm_fail(&why, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SERVER_ENDS);
        if (event->error)
            why = *event->error;
        if (t->traced)
            lm_traced_failure(t->traced, &why);
        fail(t, &why);
        return false;
    }
    if (is_past(c, event))
        warn_of_time(t);
    c->stop = event->stop;
    if (c->stop == LM_STOP_CANCELLED || c->stop == LM_STOP_FAILED)       /* by a limit of time */
        c->stop = LM_STOP_LENGTH;
    bool cut = c->stop == LM_STOP_LENGTH || c->stop == LM_STOP_CONTEXT;
    if (c->answer)
        (cut ? lm_answer_cut : lm_answer_end)(c->answer, on_answer, &(listener){ t, c }, NULL);
    c->ended = true;
    c->stop_word = t->stops && event->id >= 0 ? t->stops[event->id] : NULL;
    c->usage = *usage;
    if (t->stream)
        send_headers(t);
    if (sends_pieces(t))
        t->writer->end(t, c);
    return true;
}

/* Process an event. False: the turn is over. */
static bool on_event(lm_turn *t, lm_choice *c, const lm_reply_event *r)
{
    switch (r->event.kind) {
    case LM_EVENT_TOKEN:  return on_token(t, c, &r->event);
    case LM_EVENT_PROMPT: return on_prompt(t, c, &r->event);
    case LM_EVENT_TEXT:   return on_text(t, c, &r->event);
    case LM_EVENT_END:    return on_end(t, c, &r->event, r->usage);
    default:              return true;
    }
}

/* Charge the tokens of all sequences to the key, once. */
static void charge(lm_turn *t)
{
    uint64_t prompt = 0, cached = 0, written = 0;

    t->charged = true;
    for (size_t i = 0; i < t->n_choices; i++) {
        prompt += t->choices[i].usage.n_prompt;
        cached += t->choices[i].usage.n_cached;
        written += t->choices[i].usage.n_tokens;
    }
    lm_account_charge(&t->account, prompt, cached, written);
}

/* Set the usage of a sequence that has not ended: the prompt tokens that were processed, and the generated
 * tokens. */
static void set_usage(lm_choice *c)
{
    lm_reply_event event;
    size_t read = 0;

    while (lm_reply_next(c->reply, &event))
        c->n_tokens += event.event.kind == LM_EVENT_TOKEN;
    lm_reply_status(c->reply, &read);
    c->usage = (lm_usage){ .n_prompt = read, .n_tokens = c->n_tokens };
}

/* Charge what a request has used that ends early: its client has left, or it failed. A request that was never
 * admitted has used nothing. */
static void charge_unfinished(lm_turn *t)
{
    bool used = false;

    for (size_t i = 0; i < t->n_choices; i++) {
        lm_choice *c = t->choices + i;
        if (!c->ended)
            set_usage(c);
        used |= c->usage.n_prompt > 0;
    }
    if (used)
        charge(t);
}

static void pump_replies(lm_exchange *x, void *job)
{
    lm_turn *t = job;
    lm_reply_event event;
    size_t ended = 0;
    bool some = false;

    for (size_t i = 0; i < t->n_choices; i++) {
        lm_choice *c = t->choices + i;

        while (!c->ended && lm_reply_next(c->reply, &event)) {
            some = true;
            if (!on_event(t, c, &event))
                return;
        }
        ended += c->ended;
    }
    if (ended == t->n_choices) {
        charge(t);
        t->writer->finish(t);
        if (!t->headers_sent)
            lm_exchange_head(x, 200, "application/json; charset=utf-8");
        lm_exchange_end(x);
        return;
    }
    if (some)
        t->last_event = lm_clock_seconds();
    if (t->stream && t->ping >= 0 && lm_clock_seconds() - t->last_event >= 0.95 * t->ping &&
        t->writer->alive) {
        send_headers(t);
        t->writer->alive(t);
        t->last_event = lm_clock_seconds();
    }
}

/* ---- end ---- */

static void free_choice(lm_choice *c)
{
    lm_reply_free(c->reply);
    lm_answer_free(c->answer);
    lm_text_free(&c->text);
    lm_text_free(&c->reasoning);
    lm_text_free(&c->arguments);
    json_decref(c->calls);
    json_decref(c->contributions);
    json_decref(c->trace);
    json_decref(c->tokens);
}

void lm_turn_end_sequences(lm_turn *t)
{
    if (!t->charged)
        charge_unfinished(t);
    for (size_t i = 0; i < t->n_choices; i++)
        free_choice(t->choices + i);
    lm_heap_free(t->choices);
    lm_traced_free(t->traced);
    t->choices = NULL;
    t->n_choices = 0;
    t->traced = NULL;
}

/* The exchange is freed. The model may be unloaded after the last of its turns has let it go. */
static void done(void *job)
{
    lm_turn *t = job;
    lm_service *service = t->service;

    lm_turn_end_sequences(t);
    lm_turn_release(t);
    lm_heap_free(t);
    lm_models_release(service);
}

void lm_turn_stream(lm_turn *t)
{
    if (t->stream && t->ping >= 0)
        lm_exchange_every(t->x, t->ping);
    lm_exchange_later(t->x, pump_replies, done, t);
}
