/* prompt_scores.c - prompt_scores.h: the row of a token has the logits of the next one. */
#include "server/dialects/prompt_scores.h"

#include <math.h>
#include <string.h>

#include "server/front/memory.h"

void lm_prompt_scores_free(void *scores)
{
    lm_prompt_scores *s = scores;

    if (!s || atomic_fetch_sub(&s->owners, 1) != 1)
        return;
    lm_heap_free(s->ids);
    lm_heap_free(s->scores);
    lm_heap_free(s);
}

lm_prompt_scores *lm_prompt_scores_new(const lm_tokens *prompt, uint32_t n_vocab, uint32_t top)
{
    lm_prompt_scores *s = lm_memory_zero(1, sizeof *s);

    if (!s)
        return NULL;
    atomic_init(&s->owners, 1);
    s->ids = lm_heap_alloc(prompt->n * sizeof *s->ids);
    s->scores = lm_memory_zero(prompt->n, sizeof *s->scores);
    if (!s->ids || !s->scores) {
        lm_prompt_scores_free(s);
        return NULL;
    }
    memcpy(s->ids, prompt->ids, prompt->n * sizeof *s->ids);
    s->n = prompt->n - 1;
    s->n_vocab = n_vocab;
    s->top = top;
    return s;
}

/* Score the token after `position`. */
static lm_status keep_score(void *scores, size_t position, const float *logits, const float *hidden,
                            lm_error *e)
{
    lm_prompt_scores *s = scores;

    (void)hidden;
    if (position >= s->n)
        return LM_OK;
    s->scores[position].logprob = (double)lm_logprobs(logits, s->n_vocab, s->ids[position + 1],
                                                      s->scores[position].top, s->top);
    if (isnan(s->scores[position].logprob))
        return lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number at position %zu", position);
    return LM_OK;
}

void lm_prompt_scores_hook(lm_prompt_scores *s, lm_sequence_options *o)
{
    atomic_fetch_add(&s->owners, 1);
    o->row = keep_score;
    o->row_arg = s;
    o->row_release = lm_prompt_scores_free;
    o->prompt_logits = true;
}
