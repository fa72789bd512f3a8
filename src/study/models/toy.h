/* toy.h - a model with the structure of a preset that is small enough to show completely. */
#ifndef LM_API_TOY_H
#define LM_API_TOY_H

#include <limits.h>

#include "runtime/model/model.h"

typedef struct lm_toy {
    lm_model *model;
    char      folder[PATH_MAX];          /* temporary: config.json and weights */
    int       held;                      /* lock of the folder */
} lm_toy;

/* Create a model with random weights, which are always the same. LM_UNSUPPORTED: the family cannot be made
 * this small. Always free it. */
lm_status lm_toy_new(const lm_model *m, lm_toy *out, lm_error *e);
void      lm_toy_free(lm_toy *t);

#endif
