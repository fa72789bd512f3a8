/* sequence_placed.c - assign a slot to a sequence, and release it. */
#include "runtime/generate/sequence.h"

void lm_sequence_place(lm_sequence *s, uint32_t slot, size_t held)
{
    s->o.sequence  = slot;
    s->away    = false;
    s->at      = held;
    s->n_reads = s->n > s->n_prompt ? s->n - 1 : s->n_prompt;
    s->n_rows = s->next = s->n_logits = 0;
    s->planned = s->verified = false;
    if (s->n == s->n_prompt)
        s->n_reused = s->n_read = held;
    s->draft.slot = slot;
    lm_draft_truncate(&s->draft, 0);
}

void lm_sequence_detach(lm_sequence *s)
{
    if (!s->away)
        lm_sequence_commit(s);
    s->away = true;
}
