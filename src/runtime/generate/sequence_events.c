/* sequence_events.c - sampling, and events. */
#include "base/error.h"
#include "runtime/generate/sequence.h"
#include "runtime/sample/sampler.h"

#include <string.h>

/* ---- choosing ---- */

static bool is_stop_id(const lm_sequence_options *o, lm_token id)
{
    for (size_t i = 0; i < o->n_stop_ids; i++)
        if (o->stop_ids[i] == id)
            return true;
    return false;
}

/* Return the logits that the sampler sees: the model's, or those that the hook has changed. */
static lm_status logits_for_sampler(lm_sequence *s, const float *model, const float **out, lm_error *e)
{
    *out = model;
    if (!s->o.logits)
        return LM_OK;
    memcpy(s->logits, model, s->n_vocab * sizeof *model);
    *e = (lm_error){ .offset = LM_NO_OFFSET };
    lm_status status = s->o.logits(s->o.logits_arg, s->logits, s->n_vocab, s->ids, s->n, e);
    if (status != LM_OK && e->code == LM_OK)
        lm_fail(e, status, "logits", LM_NO_OFFSET, "rejected by the caller's function");
    *out = s->logits;
    return status;
}

static lm_status pick(lm_sequence *s, const float *model, lm_token *id, lm_error *e)
{
    const float *logits;
    lm_status    status;

    if (s->answered) {
        *id = s->answer;
        return LM_OK;
    }
    LM_TRY(logits_for_sampler(s, model, &logits, e));
    status = lm_sampler_pick(s->sampler, logits, s->o.draw, s->n, id, e);
    if (status == LM_FAILED && !s->o.logits)             /* an error of the model: its logits are not
                                                            numbers */
        lm_fail_in(e, s->source);
    return status;
}

/* Set the stop reason; the first one counts. */
static void stop_for(lm_sequence *s, lm_stop why)
{
    if (s->stop == LM_STOP_NONE)
        s->stop = why;
}

/* Add the token to the text, and check whether it ends the sequence. */
static lm_status add_text(lm_sequence *s, lm_token id, lm_error *e)
{
    bool stopped;

    if (!s->o.ignore_eos && lm_model_is_end(s->m, id)) {
        stop_for(s, LM_STOP_EOS);
        if (!s->o.special)
            return LM_OK;
    }
    if (is_stop_id(&s->o, id)) {
        stop_for(s, LM_STOP_STRING);
        return LM_OK;
    }
    LM_TRY(lm_emit_push(&s->text, id, &stopped, e));
    if (stopped)
        stop_for(s, LM_STOP_STRING);
    return LM_OK;
}

/* Compare the chosen token with the next draft token. Rows after a rejected draft token belong to another
 * continuation. */
static void verify_draft(lm_sequence *s, lm_token id)
{
    uint32_t left = s->n_logits - s->next;               /* draft tokens that are not verified yet */

    if (left == 0)
        return;
    if (s->draft.tokens[s->draft.n_drafted - left] != id) {
        s->next = s->n_logits;
        return;
    }
    s->accepted++;
    s->n_accepted++;
}

/* Choose the next token and do everything that depends on it. */
static lm_status choose(lm_sequence *s, lm_error *e)
{
    const float *model = lm_engine_logits(s->g, s->next);
    lm_token     id;

    if (!model)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET,
                       "another step has run before its events were read");
    LM_TRY(pick(s, model, &id, e));
    if (s->o.logprobs && s->o.sampled)
        s->logprob = lm_sampler_logprobs(s->sampler, id, s->top,
                                         s->o.logprobs > 0 ? (uint32_t)s->o.logprobs : 0);
    else if (s->o.logprobs)
        s->logprob = lm_logprobs(model, s->n_vocab, id, s->top,
                                 s->o.logprobs > 0 ? (uint32_t)s->o.logprobs : 0);
    s->answered = false;
    s->at       = s->n;
    s->ids[s->n++] = id;
    s->next++;
    if (s->sampler)
        lm_sampler_accept(s->sampler, id);
    lm_draft_add(&s->draft);
    verify_draft(s, id);
    s->token_due = true;
    return add_text(s, id, e);
}

lm_status lm_sequence_choose(lm_sequence *s, lm_token id, lm_error *e)
{
    LM_REQUIRE(e, s);
    if (!s || s->sampler || !lm_sequence_chooses(s))
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "no token to choose");
    if (id < 0 || (uint32_t)id >= s->n_vocab)
        return lm_fail(e, LM_USAGE, "token", LM_NO_OFFSET, "%d is outside the vocabulary of %u", id,
                       s->n_vocab);
    s->answer     = id;
    s->answered   = true;
    s->choice_due = false;
    return LM_OK;
}

/* ---- rows of the prompt ---- */

/* Pass rows to the hook, except those that it has seen: a preempted sequence recomputes them. */
static lm_status show_rows(lm_sequence *s, lm_error *e)
{
    size_t   position = s->at - s->n_shown;
    uint32_t row = s->shown, n = s->n_shown;
    bool     keeps = lm_engine_hidden_width(s->g) > 0;

    s->n_shown = 0;
    for (; n; n--, row++, position++) {
        if (position < s->seen || position >= s->n_prompt)
            continue;
        *e = (lm_error){ .offset = LM_NO_OFFSET };
        lm_status status = s->o.row(s->o.row_arg, position,
                                    s->o.prompt_logits ? lm_engine_logits(s->g, row) : NULL,
                                    keeps ? lm_engine_hidden(s->g, row) : NULL, e);
        if (status != LM_OK)
            return e->code != LM_OK
                       ? status
                       : lm_fail(e, status, "row", LM_NO_OFFSET, "rejected by the caller's function");
        s->seen = position + 1;
    }
    return LM_OK;
}

/* ---- events ---- */

static bool prompt_event(lm_sequence *s, lm_event *out)
{
    s->prompt_due = false;
    *out = (lm_event){ .kind = LM_EVENT_PROMPT, .done = s->n_read, .total = s->n_prompt };
    return true;
}

static bool token_event(lm_sequence *s, lm_event *out)
{
    s->token_due = false;
    *out = (lm_event){ .kind = LM_EVENT_TOKEN, .id = s->ids[s->n - 1], .logprob = s->logprob, .top = s->top,
                       .n_top = s->o.logprobs > 0 ? (uint32_t)s->o.logprobs : 0 };
    return true;
}

static bool choice_event(lm_sequence *s, lm_event *out)
{
    if (s->choice_due)
        return false;                                    /* it has been delivered, but not answered */
    s->choice_due = true;
    *out = (lm_event){ .kind = LM_EVENT_CHOICE, .logits = lm_engine_logits(s->g, s->next) };
    return true;
}

static bool text_event(lm_sequence *s, lm_event *out)
{
    size_t      size;
    const char *text = lm_emit_take(&s->text, &size);

    if (size == 0)
        return false;
    *out = (lm_event){ .kind = LM_EVENT_TEXT, .text = text, .size = size };
    return true;
}

static bool end_event(lm_sequence *s, lm_event *out)
{
    lm_error e;

    if (s->ended)
        return false;
    if (lm_emit_end(&s->text, &e) == LM_OK && text_event(s, out))
        return true;
    s->ended = true;
    *out = (lm_event){ .kind = LM_EVENT_END,
                       .id = s->stop == LM_STOP_STRING ? s->text.stopped_by : -1,
                       .stop = s->stop,
                       .error = s->stop == LM_STOP_FAILED ? &s->error : NULL };
    return true;
}

bool lm_sequence_event(lm_sequence *s, lm_event *out)
{
    if (!s || !out)
        return false;
    lm_error e;

    if (!s || !out || s->n == 0)
        return false;
    if (s->n_shown && show_rows(s, &e) != LM_OK)
        lm_sequence_end(s, LM_STOP_FAILED, &e);
    if (s->prompt_due)
        return prompt_event(s, out);
    for (;;) {
        if (s->token_due)
            return token_event(s, out);
        if (text_event(s, out))
            return true;
        lm_sequence_update_stop(s);
        if (s->stop != LM_STOP_NONE)
            return end_event(s, out);
        if (!lm_sequence_chooses(s))
            return false;
        if (!s->sampler && !s->answered)
            return choice_event(s, out);
        if (choose(s, &e) != LM_OK)
            lm_sequence_end(s, LM_STOP_FAILED, &e);
    }
}
