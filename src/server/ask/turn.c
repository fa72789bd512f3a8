#include "server/ask/turn.h"

#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/os/clock.h"
#include "lamina/logits.h"
#include "server/ask/turn_trace.h"
#include "server/models/loras.h"

/* ---- events ---- */

static void head(lm_turn *t)
{
    if (t->headed)
        return;
    t->headed = true;
    lm_exchange_head(t->x, 200, t->writer->type);
    lm_exchange_add_header(t->x, "Cache-Control", "no-cache");
    lm_exchange_add_header(t->x, "X-Accel-Buffering", "no");
    lm_exchange_stream(t->x);
    if (t->writer->begin)
        t->writer->begin(t);
}

/* An error of a grammar in use names no field: set the constraint's. */
static lm_status of_constraint(const lm_turn *t, lm_status status, lm_error *e)
{
    return t->constraint && status == LM_LIMIT ? lm_fault_rename(status, "", t->constraint, e) : status;
}

static void fail(lm_turn *t, const lm_error *why)
{
    lm_error e = *why;

    of_constraint(t, e.code, &e);
    if (t->headed) {
        t->writer->fault(t, &e);
        lm_exchange_end(t->x);
    } else {
        if (lm_fault_is_late(why))
            lm_fail(&e, LM_LIMIT, "timeout", LM_NO_OFFSET, "nothing was generated within %g s", t->deadline);
        lm_answer_fault(t->x, t->writer->dialect, lm_fault_is_late(why) ? 503 : 0, 0, &e);
    }
    for (size_t i = 0; i < t->n; i++)
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
        json_array_append_new(c->contributions, json_pack("{s:i, s:f, s:O}", "id", id, "logprob", logprobs[0], "members", each));
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
        json_array_append_new(top, json_pack("{s:i, s:f}", "id", event->top[i].id, "logprob", (double)event->top[i].logprob));
    json_array_append_new(c->tokens, json_pack("{s:i, s:f, s:o}", "id", event->id, "logprob", (double)event->logprob, "top", top));
}

/* Keep or send the trace of the token. Returns false if it is missing for lack of memory. */
static bool add_trace(lm_turn *t, lm_choice *c)
{
    char   *text = lm_traced_next(t->traced);
    json_t *o = text ? json_loads(text, 0, NULL) : NULL, *token = json_object_get(o, "token");

    free(text);
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
    head(t);
    json_object_set_new(o, "index", json_integer((json_int_t)c->index));
    t->writer->trace(t, c, o);
    return true;
}

/* Whether the writer gets each piece. */
static bool sends_pieces(const lm_turn *t)
{
    return t->stream || t->writer->always;
}

typedef struct listener { lm_turn *t; lm_choice *c; } listener;

static void on_answer(void *arg, const lm_answer_event *event)
{
    lm_turn *t = ((listener *)arg)->t;
    lm_choice *c = ((listener *)arg)->c;

    if (t->stream)
        head(t);
    if (event->kind == LM_ANSWER_CONTENT) {
        if (sends_pieces(t))
            t->writer->text(t, c, event->text, event->size);
        else
            lm_text_add(&c->text, event->text, event->size);
        return;
    }
    if (event->kind == LM_ANSWER_REASONING)
        c->n_reasoning = c->n_tokens;
    if (event->kind == LM_ANSWER_REASONING && !sends_pieces(t))
        lm_text_add(&c->reasoning, event->text, event->size);
    if (event->kind == LM_ANSWER_CALL) {
        if (!c->calls)
            c->calls = json_array();
        json_array_append_new(c->calls, json_pack("{s:s, s:s%, s:s}", "id", event->id, "name", event->text, event->size, "arguments", ""));
        lm_text_clear(&c->arguments);
    }
    if (event->kind == LM_ANSWER_ARGUMENTS)
        lm_text_add(&c->arguments, event->text, event->size);
    if (event->kind == LM_ANSWER_CALL_END)
        json_object_set_new(json_array_get(c->calls, json_array_size(c->calls) - 1), "arguments",
                            json_stringn(c->arguments.data ? c->arguments.data : "", c->arguments.size));
    if (sends_pieces(t) && t->writer->part)
        t->writer->part(t, c, event);
}

static json_t *progress_json(const lm_turn *t, const lm_event *event)
{
    return json_pack("{s:I, s:I, s:I, s:f}", "total", (json_int_t)event->total, "cache", (json_int_t)t->choices->usage.n_cached,
                     "processed", (json_int_t)event->done, "time_ms", 1e3 * (lm_clock_seconds() - t->began));
}

/* Whether the sequence ended at its deadline and has tokens. */
static bool is_past(const lm_choice *c, const lm_event *event)
{
    return event->stop == LM_STOP_FAILED && lm_fault_is_late(event->error) && c->n_tokens;
}

/* Whether the sequence failed or was cancelled for another reason than a time limit. */
static bool is_fault(const lm_choice *c, const lm_event *event)
{
    return (event->stop == LM_STOP_FAILED && !is_past(c, event)) || (event->stop == LM_STOP_CANCELLED && !c->late);
}

static void warn_of_time(lm_turn *t)
{
    char text[80];

    if (t->is_past)
        return;
    t->is_past = true;
    snprintf(text, sizeof text, "timeout: the output ends after %g s", t->deadline);
    if (!t->warnings)
        t->warnings = json_array();
    json_array_append_new(t->warnings, json_string(text));
}

static void look_at_time(const lm_turn *t, lm_choice *c)
{
    if (t->most_seconds <= 0 || c->late || !c->new_line || lm_clock_seconds() - c->first < t->most_seconds)
        return;
    c->late = true;
    lm_reply_cancel(c->reply);
}

/* Process an event. False: the turn is over. */
static bool take(lm_turn *t, lm_choice *c, const lm_reply_event *r)
{
    const lm_event *event = &r->event;

    switch (event->kind) {
    case LM_EVENT_TOKEN:
        add_token(t, c, event);
        if (t->shows_trace && !add_trace(t, c)) {
            lm_error e;
            lm_fail_memory(&e, "a trace", 0);
            fail(t, &e);
            return false;
        }
        break;
    case LM_EVENT_PROMPT:
        if (t->stream && t->writer->progress) {
            head(t);
            t->writer->progress(t, c, progress_json(t, event));
        }
        break;
    case LM_EVENT_TEXT:
        c->new_line |= memchr(event->text, '\n', event->size) != NULL;
        if (c->answer) {
            lm_answer_feed(c->answer, event->text, event->size, on_answer, &(listener){ t, c }, NULL);
        } else if (sends_pieces(t)) {
            if (t->stream)
                head(t);
            t->writer->text(t, c, event->text, event->size);
        } else {
            lm_text_add(&c->text, event->text, event->size);
        }
        look_at_time(t, c);
        break;
    case LM_EVENT_END:
        if (is_fault(c, event)) {
            lm_error cancelled = { 0 };
            lm_fail(&cancelled, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SHUTTING_DOWN);
            fail(t, event->error ? event->error : &cancelled);
            return false;
        }
        if (is_past(c, event))
            warn_of_time(t);
        if (c->answer)
            lm_answer_end(c->answer, on_answer, &(listener){ t, c }, NULL);
        c->ended = true;
        c->stop = event->stop == LM_STOP_CANCELLED || event->stop == LM_STOP_FAILED ? LM_STOP_LENGTH : event->stop;
        c->stop_word = t->stops && event->id >= 0 ? t->stops[event->id] : NULL;
        c->usage = *r->usage;
        if (t->stream)
            head(t);
        if (sends_pieces(t))
            t->writer->end(t, c);
        break;
    default:
        break;
    }
    return true;
}

/* Charge the tokens of all sequences to the key, once. */
static void count(lm_turn *t)
{
    uint64_t prompt = 0, cached = 0, written = 0;

    t->counted = true;
    for (size_t i = 0; i < t->n; i++) {
        prompt += t->choices[i].usage.n_prompt;
        cached += t->choices[i].usage.n_cached;
        written += t->choices[i].usage.n_tokens;
    }
    lm_account_charge(&t->account, prompt, cached, written);
}

/* Set the usage of a sequence that has not ended: the prompt tokens that were processed, and the generated tokens. */
static void take_usage(lm_choice *c)
{
    lm_reply_event event;
    size_t read = 0;

    while (lm_reply_next(c->reply, &event))
        c->n_tokens += event.event.kind == LM_EVENT_TOKEN;
    lm_reply_status(c->reply, &read);
    c->usage = (lm_usage){ .n_prompt = read, .n_tokens = c->n_tokens };
}

/* Charge what a request has used that ends early: its client has left, or it failed. A request that was never admitted has used nothing. */
static void count_unfinished(lm_turn *t)
{
    bool used = false;

    for (size_t i = 0; i < t->n; i++) {
        lm_choice *c = t->choices + i;
        if (!c->ended)
            take_usage(c);
        used |= c->usage.n_prompt > 0;
    }
    if (used)
        count(t);
}

static void more(lm_exchange *x, void *job)
{
    lm_turn *t = job;
    lm_reply_event event;
    size_t ended = 0;
    bool some = false;

    for (size_t i = 0; i < t->n; i++) {
        lm_choice *c = t->choices + i;

        while (!c->ended && lm_reply_next(c->reply, &event)) {
            some = true;
            if (!take(t, c, &event))
                return;
        }
        ended += c->ended;
    }
    if (ended == t->n) {
        count(t);
        t->writer->finish(t);
        if (!t->headed)
            lm_exchange_head(x, 200, "application/json; charset=utf-8");
        lm_exchange_end(x);
        return;
    }
    if (some)
        t->last_event = lm_clock_seconds();
    if (t->stream && t->ping >= 0 && lm_clock_seconds() - t->last_event >= 0.95 * t->ping && t->writer->alive) {
        head(t);
        t->writer->alive(t);
        t->last_event = lm_clock_seconds();
    }
}

void lm_writer_drop(const lm_writer *w, void *own)
{
    if (own && w->drop)
        w->drop(own);
    free(own);
}

static void done(void *job)
{
    lm_turn *t = job;
    lm_service *service = t->service;

    if (!t->counted)
        count_unfinished(t);
    for (size_t i = 0; i < t->n; i++) {
        lm_reply_free(t->choices[i].reply);
        lm_text_free(&t->choices[i].text);
        lm_text_free(&t->choices[i].reasoning);
        lm_text_free(&t->choices[i].arguments);
        lm_answer_free(t->choices[i].answer);
        json_decref(t->choices[i].calls);
        json_decref(t->choices[i].contributions);
        json_decref(t->choices[i].trace);
        json_decref(t->choices[i].tokens);
    }
    lm_traced_free(t->traced);
    json_decref(t->warnings);
    json_decref(t->prompt);
    free(t->stops);
    free(t->choices);
    lm_writer_drop(t->writer, t->own);
    lm_tools_free(t->tools);
    free(t);
    lm_models_release(service);
}

static void wake(void *exchange)
{
    lm_exchange_wake(exchange);
}

/* ---- start ---- */

static lm_status listen_to(const lm_service *s, const lm_turn *t, lm_choice *c, const lm_turn_options *o, lm_sequence_options *sequence,
                           lm_error *e)
{
    lm_answer_options a;

    if (!t->tools || !t->tools->reads)
        return LM_OK;
    a = lm_tools_options(t->tools, s->ends, o->parts->sampling.seed + c->index);
    sequence->special = s->special;
    return lm_answer_new(&s->style, &a, &c->answer, e);
}

/* Restrict the output by the grammar and the reasoning budget. The sequence owns the hook. */
static lm_status constrain(const lm_service *s, const lm_grammar *g, const lm_tools *tools, lm_sequence_options *o, lm_error *e)
{
    lm_logits_options l = { .style = &s->style, .tokenizer = s->tokenizer };
    lm_logits_processor *p;

    if (g && !s->vocabulary)
        return lm_fail(e, LM_USAGE, "response_format", LM_NO_OFFSET,
                       "constraints need a token that ends the output, and the model has none");
    if (g)
        LM_TRY(lm_constraint_new(g, s->vocabulary, &l.constraint, e));
    if (tools && tools->budget >= 0) {
        l.budget = true;
        l.in_reasoning = tools->in_reasoning;
        l.most_reasoning = (uint64_t)tools->budget;
    }
    LM_TRY(lm_logits_new(&l, &p, e));
    lm_logits_into(p, o);
    return LM_OK;
}

static lm_status submit(lm_call *call, lm_turn *t, const lm_turn_options *o, lm_error *e)
{
    const lm_params *a = o->params;
    const lm_prepared *parts = o->parts;
    lm_request r = { .sampler = &parts->sampling, .key = call->key, .salt = lm_call_key(call), .priority = parts->priority,
                     .connection = lm_exchange_connection(t->x), .wanted_slot = parts->wanted_slot, .adapters = parts->loras,
                     .explain_cache = a->explain_cache, .contributions = a->contributions, .progress = a->progress && a->stream,
                     .deadline = parts->deadline, .wake = wake, .wake_arg = t->x };

    lm_schedule *schedule = call->service->schedule;

    LM_TRY(lm_sampler_check(&parts->sampling, e));
    LM_TRY(lm_turn_trace(call, t, o, e));
    if (t->traced) {
        schedule = lm_traced_schedule(t->traced);
        lm_traced_into(t->traced, &r);
    }
    for (size_t i = 0; i < t->n; i++) {
        lm_choice *c = t->choices + i;
        const lm_tokens *prompt = o->prompts->items + i / a->n;

        if (!prompt->n)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
        r.prompt = prompt->ids;
        r.n_prompt = c->n_prompt = prompt->n;
        r.sequence = parts->sequence;
        r.sequence.logprobs = o->logprobs;
        r.sequence.prompt_only = o->prompt_only;
        LM_TRY(lm_service_fit(call->service, prompt->n, &r.sequence, e));
        r.sequence.draw = i % a->n;
        c->index = (uint32_t)i;
        LM_TRY(listen_to(call->service, t, c, o, &r.sequence, e));
        if (a->contributions && !(c->contributions = json_array()))
            return lm_fail_memory(e, "contributions", 0);
        if (o->logprobs && !(c->tokens = json_array()))
            return lm_fail_memory(e, "log-probabilities", 0);
        LM_TRY(of_constraint(t, constrain(call->service, parts->grammar, t->tools, &r.sequence, e), e));
        if (t->writer->each)
            t->writer->each(t->own, i, &r.sequence);
        r.no_prefix = a->no_cache || r.sequence.row;     /* the hook does not get reused rows */
        LM_TRY(lm_schedule_submit(schedule, &r, &c->reply, e));
    }
    return LM_OK;
}

/* Copy the stop strings into one block of memory. */
static lm_status copy_stops(lm_turn *t, const char *const *stops, lm_error *e)
{
    size_t n = 0, bytes = 0;

    for (; stops && stops[n]; n++)
        bytes += strlen(stops[n]) + 1;
    if (!n)
        return LM_OK;
    if (!(t->stops = calloc(1, (n + 1) * sizeof *t->stops + bytes)))
        return lm_fail_memory(e, "stop strings", bytes);
    char *at = (char *)(t->stops + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(stops[i]) + 1;
        t->stops[i] = memcpy(at, stops[i], size);
        at += size;
    }
    return LM_OK;
}

/* Copy what the turn needs of the request later. */
static lm_status keep(lm_turn *t, const lm_call *call, const lm_turn_options *o, lm_error *e)
{
    const lm_params *a = o->params;
    lm_constraints given = a->constraints;
    lm_text text = { 0 };

    given.body = given.body ? given.body : call->body;
    LM_TRY(copy_stops(t, o->parts->stops, e));
    t->stream = a->stream;
    t->explain_cache = a->explain_cache;
    t->contributions = a->contributions;
    t->timings = a->timings;
    t->ping = a->ping ? a->ping : 1;
    t->most_seconds = o->parts->most_seconds;
    t->deadline = o->parts->deadline;
    if (o->parts->grammar)
        t->constraint = t->tools && t->tools->eager ? "tools" : lm_constraints_field(&given);
    if (!a->verbose)
        return LM_OK;
    LM_TRY(lm_detokenize(t->service->tokenizer, o->prompts->items->ids, o->prompts->items->n, 0, &text, e));
    t->prompt = json_stringn(text.data ? text.data : "", text.size);
    lm_text_free(&text);
    return LM_OK;
}

lm_status lm_turn_start(lm_call *call, const lm_turn_options *o, const lm_writer *w, lm_error *e)
{
    size_t n = o->prompts->n * o->params->n;
    lm_turn *t = calloc(1, sizeof *t);
    uint64_t number;
    lm_status status;

    if (t)
        t->choices = calloc(n, sizeof *t->choices);
    if (!t || !t->choices) {
        free(t);
        lm_writer_drop(w, o->own);
        lm_tools_free(o->tools);
        return lm_fail_memory(e, "the answer", n * sizeof(lm_choice));
    }
    t->service = call->service;
    lm_models_hold(t->service);
    lm_loras_fingerprint(t->service, t->fingerprint);
    t->x = call->x;
    t->out = lm_exchange_out(call->x);
    t->writer = w;
    t->n = n;
    t->each = o->params->n;
    t->created = (int64_t)time(NULL);
    t->began = t->last_event = lm_clock_seconds();
    t->warnings = json_array_size(call->warnings) ? json_copy(call->warnings) : NULL;
    t->own = o->own;
    lm_call_account(call, &t->account);
    t->tools = o->tools;
    randombytes_buf(&number, sizeof number);
    snprintf(t->id, sizeof t->id, "%s%016" PRIx64, o->id_prefix, number);
    status = keep(t, call, o, e);
    if (status == LM_OK)
        status = submit(call, t, o, e);
    if (status != LM_OK) {
        done(t);
        return status;
    }
    if (t->stream && t->ping >= 0)
        lm_exchange_every(call->x, t->ping);
    lm_exchange_later(call->x, more, done, t);
    return LM_OK;
}
