/* mixture.h - what several models of one vocabulary say of the next token, as one distribution.
 *
 *   lm_mixture x = { .rule = LM_MIXTURE_MEAN, .n = 2, .weights = { 0.6, 0.4 } };
 *   lm_mixture_prepare(&x, &e);                                     weights that add up to 1
 *   lm_mixture_mix(&x, logits, sizes, n_vocab, mixed, &told);       each time that a token is chosen
 *
 * lm_schedule_options.others is the same for many texts at once. */
#ifndef LAMINA_MIXTURE_H
#define LAMINA_MIXTURE_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LM_MIXTURE_MODELS 8          /* at most */

typedef enum lm_mixture_rule {
    LM_MIXTURE_MEAN,                 /* log sum w p: the mean of the probabilities */
    LM_MIXTURE_LOGMEAN,              /* sum w log p: of the log-probabilities, a geometric mean */
    LM_MIXTURE_CONTRAST,             /* of two models: (1 + w) log p of the first - w log p of the second, w being the second's weight,
                                        where the first gives a token at least a tenth of what it gives its most probable one,
                                        else impossible (O'Brien and Lewis, arXiv 2309.09117) */
} lm_mixture_rule;
const char *lm_mixture_word(lm_mixture_rule r);      /* "mean" "logmean" "contrast" */

typedef struct lm_mixture {
    lm_mixture_rule rule;
    uint32_t n;                      /* models: 2 to LM_MIXTURE_MODELS; contrast: 2 */
    double   weights[LM_MIXTURE_MODELS];
    uint64_t reserved[4];            /* zero */
} lm_mixture;

/* Weights divided by their sum, but for contrast, whose second one says how much is taken away. LM_USAGE: a weight that is not above 0 (or
 * above 1e6), a number of models that the rule is not for. */
lm_status lm_mixture_prepare(lm_mixture *x, lm_error *e);

/* What log-probabilities of the models follow from: that of token i is logits[i] - norms[model]. */
typedef struct lm_mixed {
    double   norms[LM_MIXTURE_MODELS];
    uint64_t reserved[2];            /* zero */
} lm_mixed;

/* Log-probabilities of the mixture into `mixed` [n_vocab]; exp of them adds up to 1. `logits` and `sizes` are [x->n]: each model's, [size]
 * of them; a token that a model does not have is impossible to it. Never fails, never allocates; some 60 ns for a token and model. */
void lm_mixture_mix(const lm_mixture *x, const float *const *logits, const uint32_t *sizes, uint32_t n_vocab, double *mixed,
                    lm_mixed *out);

#ifdef __cplusplus
}
#endif
#endif
