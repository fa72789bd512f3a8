/* given.h - an engine whose weights are numbers that somebody gives, not those of a file: float32, each matrix replaceable between steps.
 * What measures the effect of a change of one tensor is made of these. */
#ifndef LM_RUNTIME_GIVEN_H
#define LM_RUNTIME_GIVEN_H

#include "runtime/engine/state.h"

/* Matrix `k` of lm_weight_matrices of a weight, in the order of the program: out [rows][columns]; of a vector all its elements, k 0. */
typedef lm_status lm_given_values(void *arg, uint32_t weight, uint64_t k, float *out, lm_error *e);

/* Elements of each of them. */
static inline uint64_t lm_given_elements(const lm_weight *w)
{
    return w->kind == LM_VECTOR ? w->elements : w->elements / lm_weight_matrices(w);
}

/* For the plan: float32 for every weight. NULL: no memory. */
const lm_dtype *lm_given_types(const lm_program *p, lm_arena *arena);

/* All weights, when the engine is made. */
lm_status lm_engine_take_given(lm_engine *g, lm_given_values *values, void *arg, const lm_engine_options *o, lm_error *e);

/* Another matrix in the place of one, of an engine whose weights were given. Between steps, with no position held. Norms and biases too,
 * but not what rotary tables are made of. */
void lm_engine_put(lm_engine *g, uint32_t weight, uint64_t k, const float *x);

#endif
