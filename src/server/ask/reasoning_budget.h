/* reasoning_budget.h - reasoning that is ended when it has had so many tokens. */
#ifndef LM_SERVER_REASONING_BUDGET_H
#define LM_SERVER_REASONING_BUDGET_H

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/text.h"

/* How the marks are spelled; used by one thread at a time. */
typedef struct lm_reasoning_budget lm_reasoning_budget;

/* `begun`: the prompt has begun reasoning. `inner` (NULL: none) is asked first, and outlives it. *out NULL with LM_OK: answers of the style
 * have no marks of reasoning. */
lm_status lm_reasoning_budget_new(const lm_answer_style *s, const lm_tokenizer *t, bool begun, uint64_t most,
                                  lm_constraint *inner, lm_reasoning_budget **out, lm_error *e);
void      lm_reasoning_budget_free(lm_reasoning_budget *b);

/* lm_sequence_options.logits: when the tokens are used up and the last character is whole, the tokens of the closing mark are the only ones
 * that may come. */
lm_status lm_reasoning_budget_logits(void *budget, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);

#endif
