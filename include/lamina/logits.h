/* logits.h - what restricts the tokens of a text while it is written: a constraint, a budget of reasoning. One hook on logits for both.
 *
 *   lm_logits_options o = { .constraint = c, .budget = true, .most_reasoning = 100, .style = &style, .tokenizer = t };
 *   lm_logits_new(&o, &p, &e);                                      takes the constraint
 *   lm_logits_into(p, &sequence);                                   and the sequence takes it: freed with the sequence
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

/* All zero: nothing is restricted. */
typedef struct lm_logits_options {
    lm_constraint *constraint;       /* taken, also on failure; NULL: none */
    bool        budget;              /* reasoning is ended when it has had `most_reasoning` tokens: once the last character is whole, the
                                        tokens of the closing mark are the only ones that may come */
    bool        in_reasoning;        /* the prompt has begun it: lm_answer_in_reasoning */
    uint64_t    most_reasoning;
    const lm_answer_style *style;    /* with `budget`: how answers are marked; copied */
    const lm_tokenizer *tokenizer;   /* with `budget`; must outlive the processor */
    uint64_t    reserved[4];         /* zero */
} lm_logits_options;

typedef struct lm_logits_processor lm_logits_processor;

/* *out NULL with LM_OK: nothing is restricted, as where answers of the style have no marks of reasoning. */
lm_status lm_logits_new(const lm_logits_options *o, lm_logits_processor **out, lm_error *e);

/* With what it took. A pointer of any type, so that it can be lm_sequence_options.logits_release. */
void      lm_logits_free(void *processor);

/* lm_sequence_options.logits with the processor as `logits_arg`. What `ids` hold at the first call is the prompt. The constraint is asked
 * first; where it leaves no room for the closing mark, reasoning goes on. */
lm_status lm_logits_process(void *processor, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);

/* Into the options of a sequence, whose it becomes with lm_sequence_new or lm_schedule_submit, whatever these return. NULL: nothing. */
void      lm_logits_into(lm_logits_processor *p, lm_sequence_options *o);

/* The tokens of the model as constraints want them, those that end a text included. LM_USAGE where there is none. */
lm_status lm_model_vocabulary(const lm_model *m, lm_vocabulary **out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
