/* sequence_saved.c - save and restore a sequence with its keys and values. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/engine/save.h"
#include "runtime/generate/sequence.h"
#include "runtime/sample/sampler.h"

/* Return whether all events before its next rows have been delivered. */
static bool all_delivered(const lm_sequence *s)
{
    return !s->prompt_due && !s->token_due && !lm_sequence_chooses(s) &&
           (s->text.taken || s->text.ready == 0) && (s->stop == LM_STOP_NONE || s->ended);
}

static lm_status refuse(lm_error *e, const char *why)
{
    return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%s", why);
}

lm_status lm_sequence_save(lm_sequence *s, const char *path, lm_error *e)
{
    LM_REQUIRE(e, s && path);
    if (s->n == 0)
        return refuse(e, "it has no text");
    if (!all_delivered(s))
        return refuse(e, "it has events that were not read");
    lm_sequence_commit(s);
    if (s->stop == LM_STOP_FAILED)
        return refuse(e, "it has failed");
    if (lm_engine_length(s->g, s->o.sequence) != s->at)
        return refuse(e, "the slot holds something else");
    lm_saved t = {
        .ids = s->ids,
        .n = (uint32_t)s->n,
        .n_held = (uint32_t)s->at,
        .n_prompt = (uint32_t)s->n_prompt,
        .stop = s->stop,
        .mirostat = s->sampler ? lm_sampler_surprisal(s->sampler) : (double)NAN,
    };
    return lm_save_text(s->g, s->o.sequence, &t, path, e);
}

/* ---- restore ---- */

/* Check the state. Valid between steps: in its prompt, or with one token that is not processed; any once it
 * has ended. */
static lm_status check_text(const lm_saved *t, const char *path, lm_error *e)
{
    bool reads = t->n == t->n_prompt, writes = t->n > t->n_prompt && t->n_held + 1 == t->n;

    if (t->n_prompt && (t->stop != LM_STOP_NONE || reads || writes))
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, "prompt", LM_NO_OFFSET, "%u of %u tokens, of which %u are held", t->n_prompt,
            t->n, t->n_held);
    return lm_fail_in(e, path);
}

/* Rebuild the text held back when it was saved; the rest had been delivered. */
static lm_status show_again(lm_sequence *s, const lm_saved *t, bool *stopped, lm_error *e)
{
    size_t size;

    *stopped = false;
    LM_TRY(lm_sequence_open_text(s, e));
    for (uint32_t i = t->n_prompt; i < t->n && !*stopped; i++)
        LM_TRY(lm_emit_push(&s->text, t->ids[i], stopped, e));
    lm_emit_take(&s->text, &size);
    return LM_OK;
}

static lm_status take_over(lm_sequence *s, const lm_saved *t, lm_error *e)
{
    uint32_t kept = t->n_held, max = t->stop != LM_STOP_NONE || t->n_held < t->n ? t->n_held : t->n - 1;
    bool     stopped;

    LM_TRY(lm_sequence_reserve(s, t->n, e));
    LM_TRY(show_again(s, t, &stopped, e));
    if (max < kept)                                      /* the last prompt token's logits are needed */
        LM_TRY(lm_engine_keep(s->g, s->o.sequence, max, &kept, e));
    if (s->sampler)
        lm_sampler_reset(s->sampler);
    for (s->n = 0; s->n < t->n; s->n++) {
        s->ids[s->n] = t->ids[s->n];
        if (s->sampler)
            lm_sampler_accept(s->sampler, t->ids[s->n]);
    }
    if (s->sampler)
        lm_sampler_resume(s->sampler, t->mirostat);
    s->n_drafted = s->n_accepted = 0;
    s->at = kept;
    lm_draft_begin(&s->draft, s->ids, s->n);
    lm_draft_truncate(&s->draft, 0);
    lm_sequence_begin(s, t->n_prompt);
    s->n_reused = s->n_read;
    s->stop     = t->stop == LM_STOP_NONE && stopped ? LM_STOP_STRING : (lm_stop)t->stop;
    s->ended    = t->stop != LM_STOP_NONE;
    return LM_OK;
}

lm_status lm_sequence_restore(lm_sequence *s, const char *path, lm_error *e)
{
    LM_REQUIRE(e, s && path);
    lm_saved t;

    if (s->n && (s->stop == LM_STOP_NONE || !all_delivered(s)))
        return refuse(e, "it has not ended");
    LM_TRY(lm_restore_text(s->g, s->o.sequence, path, &t, e));
    lm_status status = check_text(&t, path, e);
    if (status == LM_OK)
        status = take_over(s, &t, e);
    if (status != LM_OK)
        lm_engine_truncate(s->g, s->o.sequence, 0, NULL);
    lm_free(t.ids);
    return status;
}
