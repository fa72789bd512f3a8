/* logits.h - restricts the tokens that a sequence may generate: by a constraint, by a reasoning budget, by
 * excluding end tokens, or by all of these, in one logits hook.
 *
 *   lm_logits_options o = { .constraint = c, .budget = true, .max_reasoning = 100, .style = &style,
 *       .tokenizer = t };
 *   lm_logits_new(&o, &p, &e);          takes ownership of the constraint
 *   lm_logits_into(p, &sequence);       gives ownership to the sequence, which frees it
 *
 * Threads: a processor is used by one thread at a time. */
#ifndef LAMINA_LOGITS_H
#define LAMINA_LOGITS_H

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/sequence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: no restriction. */
typedef struct lm_logits_options {
    lm_constraint *constraint;       /* owned from now on, even on failure; NULL: none */
    bool        budget;              /* after `max_reasoning` tokens, force the end-of-reasoning marker once
                                        the last character is complete */
    bool        in_reasoning;        /* the prompt ends inside reasoning: lm_answer_in_reasoning */
    uint64_t    max_reasoning;
    const lm_answer_style *style;    /* with `budget`: the model's reasoning markers; copied */
    const lm_tokenizer *tokenizer;   /* with `budget`; must outlive the processor */
    const lm_model *endless;         /* exclude the end tokens of this model where any other token is allowed;
                                        only used by lm_logits_new; NULL: end tokens are allowed */
    uint64_t    reserved[3];         /* zero */
} lm_logits_options;

typedef struct lm_logits_processor lm_logits_processor;

/* *out is NULL with LM_OK if there is no restriction, for example because the style has no reasoning
 * markers. */
lm_status lm_logits_new(const lm_logits_options *o, lm_logits_processor **out, lm_error *e);

/* Free a processor and its constraint. The type fits lm_sequence_options.logits_release. */
void      lm_logits_free(void *processor);

/* For lm_sequence_options.logits, with the processor as `logits_arg`. The `ids` of the first call are the
 * prompt. The constraint is applied first; if it does not allow the end-of-reasoning marker, reasoning
 * continues. */
lm_status lm_logits_process(void *processor, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                            lm_error *e);

/* Set the processor in the options of a sequence. lm_sequence_new or lm_schedule_submit take ownership,
 * whatever they return. NULL: no effect. */
void      lm_logits_into(lm_logits_processor *p, lm_sequence_options *o);

/* Create the vocabulary for constraints, with the model's end tokens. LM_USAGE: the model has no end
 * token. */
lm_status lm_model_vocabulary(const lm_model *m, lm_vocabulary **out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
