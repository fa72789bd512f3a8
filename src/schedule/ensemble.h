/* ensemble.h - the further models of an ensemble: their engines hold what the schedule's engine holds, row by row, and their logits
 * are mixed into its. By the schedule's thread, except lm_ensemble_logprobs. */
#ifndef LM_SCHEDULE_ENSEMBLE_H
#define LM_SCHEDULE_ENSEMBLE_H

#include "lamina/schedule.h"

typedef struct lm_engine_ensemble {
    lm_engine  *g;                       /* the schedule's: the first model */
    lm_engine **engines;                 /* [n] */
    uint32_t    n;                       /* 0: there are none */
    lm_mixture  mixture;
    uint32_t    n_vocab;                 /* of the first */
    uint32_t    sizes[LM_MIXTURE_MODELS];        /* vocabularies */
    float      *own;                     /* [logit rows][n_vocab]: the first model's logits, before they were mixed */
    double     *mixed;                   /* [threads][n_vocab] */
    lm_mixed   *results;                 /* [logit rows] */
    uint32_t   *at;                      /* [logit rows]: its row in the step */
    uint32_t    n_at;
} lm_engine_ensemble;

/* *x is all zero. lm_ensemble_close also after a failure. */
lm_status lm_ensemble_open(lm_engine_ensemble *x, lm_engine *g, const lm_schedule_others *o, lm_error *e);
void      lm_ensemble_close(lm_engine_ensemble *x);

/* Before a step: what the first engine has forgotten, the others forget; then whether they would take the rows (LM_LIMIT: no pages). */
lm_status lm_ensemble_check(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e);

/* After the first engine's step with these rows: the same step of the others, whose mixture replaces its logits. A failure ends all
 * requests. */
lm_status lm_ensemble_step(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e);

/* Log-probabilities of `id` after `position` of `slot`, whose row was in the last step: [1 + models], the mixture first. By any thread
 * between steps. False: there is no such row. */
bool      lm_ensemble_logprobs(const lm_engine_ensemble *x, const lm_row *rows, uint32_t slot, uint32_t position, lm_token id,
                               double *logprobs);

#endif
