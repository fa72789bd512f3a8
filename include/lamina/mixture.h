/* mixture.h - combines the predictions of several models with one vocabulary into one distribution.
 *
 *   lm_mixture x = { .rule = LM_MIXTURE_MEAN, .n = 2, .weights = { 0.6, 0.4 } };
 *   lm_mixture_prepare(&x, &e);                                     normalise the weights
 *   lm_mixture_mix(&x, logits, sizes, n_vocab, mixed, &out);        for each token
 *
 * lm_schedule_options.others does the same for concurrent sequences. */
#ifndef LAMINA_MIXTURE_H
#define LAMINA_MIXTURE_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LM_MIXTURE_MODELS 8          /* maximum number of models */

typedef enum lm_mixture_rule {
    LM_MIXTURE_MEAN,                 /* log sum w p: arithmetic mean of the probabilities */
    LM_MIXTURE_LOGMEAN,              /* sum w log p: geometric mean */
    LM_MIXTURE_CONTRAST,             /* two models: (1 + w) log p of the first - w log p of the second, w: the
                                        second's weight, for tokens to which the first gives at least a tenth
                                        of its highest probability; others are excluded (O'Brien and Lewis,
                                        arXiv 2309.09117) */
} lm_mixture_rule;
const char *lm_mixture_word(lm_mixture_rule r);      /* "mean" "logmean" "contrast" */

typedef struct lm_mixture {
    lm_mixture_rule rule;
    uint32_t n;                      /* models: 2 to LM_MIXTURE_MODELS; contrast: 2 */
    double   weights[LM_MIXTURE_MODELS];
    uint64_t reserved[4];            /* zero */
} lm_mixture;

/* Divide the weights by their sum, except for contrast, whose second weight is used as it is. LM_USAGE: a
 * weight outside 0 … 1e6 (0 excluded), or a number of models that the rule does not support. */
lm_status lm_mixture_prepare(lm_mixture *x, lm_error *e);

/* The log-probability of token i in a model is logits[i] - norms[model]. */
typedef struct lm_mixed {
    double   norms[LM_MIXTURE_MODELS];
    uint64_t reserved[2];            /* zero */
} lm_mixed;

/* Write the mixture's log-probabilities to `mixed` [n_vocab]; their exponentials add up to 1. `logits` and
 * `sizes` are [x->n]: the logits [size] of each model; a token outside a model's vocabulary has probability 0
 * in it. Never fails, never allocates; about 60 ns per token and model. */
void lm_mixture_mix(const lm_mixture *x, const float *const *logits, const uint32_t *sizes, uint32_t n_vocab,
                    double *mixed, lm_mixed *out);

#ifdef __cplusplus
}
#endif
#endif
