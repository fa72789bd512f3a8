/* others.h - models that choose with the schedule's: their engines hold what its engine holds, row by row, and their logits are mixed into
 * its. By the schedule's thread, but for lm_others_tell. */
#ifndef LM_SCHEDULE_OTHERS_H
#define LM_SCHEDULE_OTHERS_H

#include "lamina/schedule.h"

typedef struct lm_others {
    lm_engine  *g;                       /* the schedule's: the first model */
    lm_engine **engines;                 /* [n] */
    uint32_t    n;                       /* 0: there are none */
    lm_mixture  mixture;
    uint32_t    n_vocab;                 /* of the first */
    uint32_t    sizes[LM_MIXTURE_MODELS];        /* vocabularies */
    float      *own;                     /* [logit rows][n_vocab]: the first model's logits, before they were mixed */
    double     *mixed;                   /* [threads][n_vocab] */
    lm_mixed   *told;                    /* [logit rows] */
    uint32_t   *at;                      /* [logit rows]: its row in the step */
    uint32_t    n_at;
} lm_others;

/* *x is all zero. lm_others_close also after a failure. */
lm_status lm_others_open(lm_others *x, lm_engine *g, const lm_schedule_others *o, lm_error *e);
void      lm_others_close(lm_others *x);

/* Before a step: what the first engine has forgotten, the others forget; then whether they would take the rows (LM_LIMIT: no pages). */
lm_status lm_others_check(lm_others *x, const lm_row *rows, size_t n, lm_error *e);

/* After the first engine's step with these rows: the same of the others, and the mixture in the place of its logits. A failure concerns
 * everybody. */
lm_status lm_others_step(lm_others *x, const lm_row *rows, size_t n, lm_error *e);

/* Of the row of the last step that reads `position` of `slot`: how probable `id` was after it, [1 + models]. By any thread between
 * steps. False: there is no such row. */
bool      lm_others_tell(const lm_others *x, const lm_row *rows, uint32_t slot, uint32_t position, lm_token id, double *logprobs);

#endif
