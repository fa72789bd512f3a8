/* caller_weights.h - an engine whose weights are values supplied by the caller, not those of a file: float32,
 * each matrix replaceable between steps. Measurements of the effect of changing one tensor are built on
 * these. */
#ifndef LM_RUNTIME_CALLER_WEIGHTS_H
#define LM_RUNTIME_CALLER_WEIGHTS_H

#include "runtime/engine/state.h"

/* Supplies matrix `k` of the lm_weight_matrices of a weight, in the order of the program: out
 * [rows][columns]; for a vector, all its elements, with k 0. */
typedef lm_status lm_caller_weights(void *arg, uint32_t weight, uint64_t k, float *out, lm_error *e);

/* Return the number of elements of each such matrix. */
static inline uint64_t lm_caller_weight_elements(const lm_weight *w)
{
    return w->kind == LM_VECTOR ? w->elements : w->elements / lm_weight_matrices(w);
}

/* Return float32 as the type of every weight, for the plan. NULL: no memory. */
const lm_dtype *lm_caller_weight_types(const lm_program *p, lm_arena *arena);

/* Load all weights when the engine is made. */
lm_status lm_engine_load_caller_weights(lm_engine *g, lm_caller_weights *values, void *arg,
                                        const lm_engine_options *o, lm_error *e);

/* Replace one matrix of an engine whose weights were supplied. Call it between steps, with no position held.
 * Also replaces norms and biases, but not the inputs of rotary tables. */
void lm_engine_put(lm_engine *g, uint32_t weight, uint64_t k, const float *x);

#endif
