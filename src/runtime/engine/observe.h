/* observe.h - the inputs of a plan's products, in float32, while somebody wants to know.
 *
 * Off, it costs a comparison for each stage. On, rows are copied where they are packed, because their buffer may be another value's when
 * the product runs; results do not change. */
#ifndef LM_RUNTIME_OBSERVE_H
#define LM_RUNTIME_OBSERVE_H

#include "runtime/engine/state.h"

/* n rows of inputs of a weight's matrix (of experts and heads which one, else 0), `stride` floats apart; as many columns as the matrix has.
 * Called by the thread of lm_engine_step, in an order that depends on neither threads nor load. */
typedef void lm_observe_fn(void *arg, uint32_t weight, uint32_t matrix, const float *x, uint64_t stride, uint64_t n);

lm_status lm_engine_observe(lm_engine *g, lm_observe_fn *fn, void *arg, lm_error *e);
void      lm_engine_observe_end(lm_engine *g);

/* For the executor: rows [from, to) of a step that packs; a stage that is about to run. */
void lm_observe_packed(const lm_engine *g, const lm_step *s, uint64_t from, uint64_t to);
void lm_observe_stage(const lm_engine *g, const lm_stage *t);

#endif
