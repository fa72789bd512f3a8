/* turn_submit.c - a prepared turn becomes sequences of the schedule: one lm_request, filled from the turn, is
 * submitted for each of them with what differs. A worker calls it. Read from lm_turn_submit upwards.
 *
 * A submitted sequence owns its constraint and the hooks of the writer, and copies what else it is given; the
 * choice owns its reply. */
#include "server/ask/turn_stages.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <time.h>

#include "base/os/clock.h"
#include "lamina/logits.h"
#include "server/models/loras.h"
#include "server/front/memory.h"

static void wake(void *exchange)
{
    lm_exchange_wake(exchange);
}

/* Let a parser of answers read the output, if it can contain reasoning or tool calls. */
static lm_status parse_output(const lm_turn *t, lm_choice *c, lm_sequence_options *o, lm_error *e)
{
    const lm_service *s = t->service;
    lm_answer_options a;

    if (!t->tools.reads)
        return LM_OK;
    a = lm_tools_options(&t->tools, s->ends, t->sampling.seed + c->index);
    a.keep_reasoning = t->merge_reasoning;
    if (!t->parse_tool_calls)
        a.n_tools = 0;
    o->special = s->special;
    return lm_answer_new(&s->style, &a, &c->answer, e);
}

/* Restrict the output by the grammar, the reasoning budget and `ignore_eos`. The sequence owns the hook. */
static lm_status constrain(const lm_turn *t, lm_sequence_options *o, lm_error *e)
{
    const lm_service *s = t->service;
    lm_logits_options l = { .style = &s->style, .tokenizer = s->tokenizer,
                            .endless = t->ignore_eos ? s->model : NULL };
    lm_logits_processor *p;

    if (t->grammar && !s->vocabulary)
        return lm_fail(e, LM_USAGE, "response_format", LM_NO_OFFSET,
                       "constraints need a token that ends the output, and the model has none");
    if (t->grammar)
        LM_TRY(lm_constraint_new(t->grammar, s->vocabulary, &l.constraint, e));
    if (t->reasoning_budget >= 0) {
        l.budget = true;
        l.in_reasoning = t->tools.in_reasoning;
        l.max_reasoning = (uint64_t)t->reasoning_budget;
    }
    LM_TRY(lm_logits_new(&l, &p, e));
    lm_logits_into(p, o);
    return LM_OK;
}

/* Return the options that all sequences of the turn have. */
static lm_sequence_options sequence_options(const lm_turn *t)
{
    int32_t logprobs = t->top_logprobs ? (int32_t)t->top_logprobs : -1;

    return (lm_sequence_options){ .shown = t->shown.ids, .n_shown = t->shown.n, .sampled = t->sampled,
                                  .max_tokens = t->max_tokens, .stops = t->stops, .stop_ids = t->stop_ids.ids,
                                  .n_stop_ids = t->stop_ids.n, .prompt_only = t->prompt_only,
                                  .logprobs = t->logprobs ? logprobs : 0 };
}

/* Submit sequence i. `r` has what all sequences share. */
static lm_status submit_sequence(lm_turn *t, size_t i, lm_schedule *schedule, lm_request *r, lm_error *e)
{
    lm_choice *c = t->choices + i;
    const lm_tokens *prompt = t->prompts.items + i / t->n;

    if (!prompt->n)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
    c->index = (uint32_t)i;
    r->prompt = prompt->ids;
    r->n_prompt = c->n_prompt = prompt->n;
    r->sequence = sequence_options(t);
    r->sequence.draw = i % t->n;
    LM_TRY(lm_service_fit(t->service, prompt->n, &r->sequence, e));
    LM_TRY(parse_output(t, c, &r->sequence, e));
    if (t->contributions && !(c->contributions = json_array()))
        return lm_fail_memory(e, "contributions", 0);
    if (t->logprobs && !(c->tokens = json_array()))
        return lm_fail_memory(e, "log-probabilities", 0);
    LM_TRY(lm_turn_name_constraint(t, constrain(t, &r->sequence, e), e));
    if (t->writer->sequence)
        t->writer->sequence(t, i, &r->sequence);
    r->no_prefix = !t->cache_prompt || r->sequence.row;  /* the hook does not get reused rows */
    return lm_schedule_submit(schedule, r, &c->reply, e);
}

static lm_status submit_sequences(lm_call *call, lm_turn *t, lm_error *e)
{
    lm_schedule *schedule = t->service->schedule;
    lm_request r = { .sampler = &t->sampling,
                     .key = call->key,
                     .salt = lm_call_key(call),
                     .priority = t->schedule_priority,
                     .connection = lm_exchange_connection(t->x),
                     .wanted_slot = (uint32_t)(t->slot + 1),
                     .adapters = t->loras,
                     .explain_cache = t->explain_cache,
                     .contributions = t->contributions,
                     .progress = t->progress && t->stream,
                     .deadline = t->deadline,
                     .wake = wake,
                     .wake_arg = t->x };

    LM_TRY(lm_sampler_check(&t->sampling, e));
    LM_TRY(lm_turn_trace(call, t, e));
    if (t->traced) {
        schedule = lm_traced_schedule(t->traced);
        lm_traced_into(t->traced, &r);
    }
    for (size_t i = 0; i < t->n_choices; i++)
        LM_TRY(submit_sequence(t, i, schedule, &r, e));
    return LM_OK;
}

/* Set what the answer contains whatever the sequences generate. */
static lm_status describe(lm_call *call, lm_turn *t, lm_error *e)
{
    lm_text text = { 0 };
    uint64_t number;

    lm_loras_fingerprint(t->service, t->fingerprint);
    randombytes_buf(&number, sizeof number);
    snprintf(t->id, sizeof t->id, "%s%016" PRIx64, t->writer->id_prefix, number);
    t->created = (int64_t)time(NULL);
    t->began = t->last_event = lm_clock_seconds();
    t->warnings = json_array_size(call->warnings) ? json_copy(call->warnings) : NULL;
    lm_call_account(call, &t->account);
    if (t->grammar)
        t->constraint = t->tools.eager ? "tools" : lm_constraints_field(&t->constraints);
    if (!t->verbose)
        return LM_OK;
    LM_TRY(lm_detokenize(t->service->tokenizer, t->prompts.items->ids, t->prompts.items->n, 0, &text, e));
    t->prompt_text = json_stringn(text.data ? text.data : "", text.size);
    lm_text_free(&text);
    return LM_OK;
}

lm_status lm_turn_submit(lm_call *call, lm_turn *t, lm_error *e)
{
    size_t n = t->prompts.n * t->n;
    lm_status status;

    if (!(t->choices = lm_memory_zero(n, sizeof *t->choices)))
        return lm_fail_memory(e, "the answer", n * sizeof *t->choices);
    t->n_choices = n;
    t->service = call->service;
    t->x = call->x;
    t->out = lm_exchange_out(call->x);
    lm_models_retain(t->service);
    status = describe(call, t, e);
    if (status == LM_OK)
        status = submit_sequences(call, t, e);
    if (status != LM_OK) {
        lm_turn_end_sequences(t);
        lm_models_release(t->service);
    }
    return status;
}
