/* ensemble.h - the further models of an ensemble. Their engines run the same rows as the schedule's engine,
 * and their logits are mixed into its logits. All functions except lm_ensemble_logprobs are called by the
 * schedule's thread. */
#ifndef LM_SCHEDULE_ENSEMBLE_H
#define LM_SCHEDULE_ENSEMBLE_H

#include "lamina/schedule.h"

typedef struct lm_engine_ensemble {
    lm_engine  *g;                       /* the schedule's: the first model */
    lm_engine **engines;                 /* [n] */
    uint32_t    n;                       /* 0: no ensemble */
    lm_mixture  mixture;
    uint32_t    n_vocab;                 /* of the first */
    uint32_t    sizes[LM_MIXTURE_MODELS];        /* vocabularies */
    float      *own;                     /* [logit rows][n_vocab]: the first model's logits before mixing */
    double     *mixed;                   /* [threads][n_vocab] */
    lm_mixed   *results;                 /* [logit rows] */
    uint32_t   *at;                      /* [logit rows]: index of the row in the step */
    uint32_t    n_at;
} lm_engine_ensemble;

/* Set up an ensemble of `g` and the engines of `o`; NULL: no ensemble. *x must be all zero. Call
 * lm_ensemble_close also after a failure. */
lm_status lm_ensemble_open(lm_engine_ensemble *x, lm_engine *g, const lm_schedule_others *o, lm_error *e);
void      lm_ensemble_close(lm_engine_ensemble *x);

/* Before a step: truncate the other engines to what the first one holds, then check that they can run the
 * rows (LM_LIMIT: too few pages). */
lm_status lm_ensemble_check(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e);

/* After the first engine's step with these rows: run them in the others, and replace the first engine's
 * logits with the mixture. A failure ends all requests. */
lm_status lm_ensemble_step(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e);

/* Write the log-probabilities of `id` after `position` of `slot` to `logprobs` [1 + models], the mixture
 * first. Returns false if the last step had no such row with logits. Any thread, between steps. */
bool lm_ensemble_logprobs(const lm_engine_ensemble *x, const lm_row *rows, uint32_t slot, uint32_t position,
                          lm_token id, double *logprobs);

#endif
