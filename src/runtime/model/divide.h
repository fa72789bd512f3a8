/* divide.h - a model of which this process runs the part of one rank. */
#ifndef LM_RUNTIME_DIVIDE_H
#define LM_RUNTIME_DIVIDE_H

#include "runtime/model/exchange.h"
#include "runtime/model/model.h"

/* Ranks 0 … parts - 1 run the first layers, the next `parts` ranks the layers after them. */
typedef struct lm_division {
    uint32_t parts, stages;              /* number of parts of each layer; number of consecutive runs of
                                            layers */
    uint32_t rank;                       /* < parts * stages */
    bool     exact;                      /* no sum is split between ranks */
} lm_division;

/* Replace the program of `m` by that of one rank (program/split.h). Call it once, before the first engine of
 * `m` is made.
 *   x    how to reach the other ranks, valid as long as m; NULL: only to inspect the plan */
lm_status lm_model_divide(lm_model *m, const lm_division *d, const lm_rank_exchange *x, lm_error *e);

/* Restore the undivided program of a model that is being closed: called by lm_model_close. */
void lm_model_undivide(lm_model *m);

#endif
