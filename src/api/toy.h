/* toy.h - a model of a preset's form that is small enough to show whole. */
#ifndef LM_API_TOY_H
#define LM_API_TOY_H

#include <limits.h>

#include "runtime/engine/model.h"

typedef struct lm_toy {
    lm_model *model;
    char      folder[PATH_MAX];          /* temporary: config.json and weights */
    int       held;                      /* the folder's lock */
} lm_toy;

/* Random weights, always the same. LM_UNSUPPORTED where the family cannot be made so small. Freed whatever is returned. */
lm_status lm_toy_new(const lm_model *m, lm_toy *out, lm_error *e);
void      lm_toy_free(lm_toy *t);

#endif
