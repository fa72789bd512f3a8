/* eval_text.h - score the tokens of a text with one or two models: shared by perplexity and divergence. */
#ifndef LM_RUNTIME_EVAL_TEXT_H
#define LM_RUNTIME_EVAL_TEXT_H

#include "base/os/journal.h"
#include "lamina/eval.h"
#include "runtime/measure/logits_file.h"
#include "runtime/measure/stretches.h"

/* The results that are stored per scored token. */
typedef struct lm_scored_token { double logprob, base, kl, same; } lm_scored_token;

/* One piece of the text, processed from an empty cache: `n` tokens from `from` on, of which those from
 * `scored` on are scored. */
typedef struct lm_eval_window { uint64_t from, first_value; uint32_t n, scored; } lm_eval_window;

typedef struct lm_eval_text {
    lm_engine            *engines[LM_MAX_ENGINES];       /* the model, and the base if it is an engine */
    uint32_t              n_engines;
    const lm_logits_file *base_file;                     /* or the logits of the base; NULL */
    const lm_token       *ids;
    size_t                n;
    const lm_eval_text_options *o;
    uint32_t              context, stride, n_vocab;
    lm_eval_window       *windows;
    uint32_t              n_windows;
    lm_scored_token      *values;                        /* of all windows, in order */
    uint64_t              n_values;
    bool                 *known;                         /* [n_windows]: it has been processed */
    lm_journal           *journal;
    lm_outfile           *saved;                         /* the file of save_logits */
    uint8_t              *coded;                         /* [scored tokens of a window]: encoded rows */
    uint64_t              bad;                           /* position of a scored token whose result is not a
                                                            number; 0: none */
} lm_eval_text;

/* Compute the values of all windows. Call lm_eval_text_end afterwards in every case: it frees what was
 * allocated. */
lm_status lm_eval_text_run(lm_eval_text *t, lm_error *e);
void      lm_eval_text_report(const lm_eval_text *t);
void      lm_eval_text_end(lm_eval_text *t);

/* Return exp of the mean, for the model or for the base. */
lm_perplexity lm_eval_text_perplexity(const lm_eval_text *t, bool base);

#endif
