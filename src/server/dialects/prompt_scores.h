/* prompt_scores.h - the log-probabilities of a prompt's tokens, computed while a sequence processes the
 * prompt.
 *
 * Ownership. Scores are shared by the response and the hook of a sequence; the last owner frees them.
 *
 * Threads. The schedule's threads write them; the response reads them when the sequence has ended, or has
 * chosen its first token. */
#ifndef LM_SERVER_PROMPT_SCORES_H
#define LM_SERVER_PROMPT_SCORES_H

#include <stdatomic.h>

#include "lamina/logits.h"
#include "lamina/sequence.h"
#include "lamina/text.h"

enum { LM_SCORED_TOP = 20 };         /* maximum of most probable tokens per position */

typedef struct lm_prompt_score { double logprob; lm_logprob top[LM_SCORED_TOP]; } lm_prompt_score;

typedef struct lm_prompt_scores {
    atomic_uint owners;
    lm_token   *ids;                 /* [n + 1] */
    lm_prompt_score  *scores;              /* [n]: of each token except the first */
    size_t      n;
    uint32_t    n_vocab, top;
} lm_prompt_scores;

/* Create scores for a prompt, with one owner. NULL: out of memory. */
lm_prompt_scores *lm_prompt_scores_new(const lm_tokens *prompt, uint32_t n_vocab, uint32_t top);

/* Let a sequence score its prompt; its hook is a further owner. */
void lm_prompt_scores_hook(lm_prompt_scores *s, lm_sequence_options *o);

/* End an owner; NULL: no effect. */
void lm_prompt_scores_free(void *scores);

#endif
