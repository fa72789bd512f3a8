/* observe.h - pass the inputs of a plan's products, in float32, to a callback.
 *
 * When off, it costs a comparison per stage. When on, rows are copied when they are packed, because their
 * buffer may hold another value when the product runs; results do not change. */
#ifndef LM_RUNTIME_OBSERVE_H
#define LM_RUNTIME_OBSERVE_H

#include "runtime/engine/state.h"

/* Receives n rows of inputs of a weight's matrix (`matrix`: which expert or head, else 0), `stride` floats
 * apart; each row has as many values as the matrix has columns. Called on the thread of lm_engine_step, in an
 * order that depends on neither threads nor load. */
typedef void lm_observe_fn(void *arg, uint32_t weight, uint32_t matrix, const float *x, uint64_t stride,
                           uint64_t n);

lm_status lm_engine_observe(lm_engine *g, lm_observe_fn *fn, void *arg, lm_error *e);
void      lm_engine_observe_end(lm_engine *g);

/* Called by the executor: for rows [from, to) of a step that packs; for a stage that is about to run. */
void lm_observe_packed(const lm_engine *g, const lm_step *s, uint64_t from, uint64_t to);
void lm_observe_stage(const lm_engine *g, const lm_stage *t);

#endif
