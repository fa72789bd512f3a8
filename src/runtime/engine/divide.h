/* divide.h - a model of which this process runs one rank's part. */
#ifndef LM_RUNTIME_DIVIDE_H
#define LM_RUNTIME_DIVIDE_H

#include "runtime/engine/exchange.h"
#include "runtime/engine/model.h"

/* Ranks 0 … parts - 1 have the first layers, the next `parts` ranks the layers after them. */
typedef struct lm_division {
    uint32_t parts, stages;              /* of each layer; runs of layers */
    uint32_t rank;                       /* < parts * stages */
    bool     exact;                      /* no sum is cut */
} lm_division;

/* From now on the program of `m` is that of one rank (program/split.h). Before the first engine of it is made, once.
 *   x    how to reach the others, valid as long as m; NULL: to look at the plan only */
lm_status lm_model_divide(lm_model *m, const lm_division *d, const lm_exchange *x, lm_error *e);

/* The program of a divided model again, as it is closed: lm_model_close does it. */
void lm_model_undivide(lm_model *m);

#endif
