/* eval_text.h - the scored tokens of a text, by one model or two: shared by perplexity and divergence. */
#ifndef LM_RUNTIME_EVAL_TEXT_H
#define LM_RUNTIME_EVAL_TEXT_H

#include "base/journal.h"
#include "lamina/eval.h"
#include "runtime/measure/logits_file.h"
#include "runtime/measure/stretches.h"

/* What is kept of a scored token. */
typedef struct lm_scored_token { double logprob, base, kl, same; } lm_scored_token;

/* One piece of the text that is read from an empty cache: `n` tokens from `from` on, of which those from `scored` on are. */
typedef struct lm_eval_window { uint64_t from, first_value; uint32_t n, scored; } lm_eval_window;

typedef struct lm_eval_text {
    lm_engine            *engines[LM_MOST_ENGINES];      /* the model, and the base if it is one */
    uint32_t              n_engines;
    const lm_logits_file *base_file;                     /* or what the base gave; NULL */
    const lm_token       *ids;
    size_t                n;
    const lm_eval_text_options *o;
    uint32_t              context, stride, n_vocab;
    lm_eval_window       *windows;
    uint32_t              n_windows;
    lm_scored_token      *values;                        /* of all windows, in their order */
    uint64_t              n_values;
    bool                 *known;                         /* [n_windows] */
    lm_journal           *journal;
    lm_outfile           *saved;                         /* of save_logits */
    uint8_t              *coded;                         /* [scored tokens of a window] rows */
    uint64_t              bad;                           /* a value that is not a number + 1; 0: none */
} lm_eval_text;

/* Windows, values of them all. What it took is freed by lm_eval_text_end in every case. */
lm_status lm_eval_text_run(lm_eval_text *t, lm_error *e);
void      lm_eval_text_report(const lm_eval_text *t);
void      lm_eval_text_end(lm_eval_text *t);

/* exp of the mean, of the model's or of the base's. */
lm_perplexity lm_eval_text_perplexity(const lm_eval_text *t, bool base);

#endif
