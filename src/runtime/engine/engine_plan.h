/* engine_plan.h - the plan that an engine with given options would run. */
#ifndef LM_RUNTIME_ENGINE_PLAN_H
#define LM_RUNTIME_ENGINE_PLAN_H

#include "runtime/engine/state.h"

/* How the cache keeps keys and values; LM_USAGE for a value that is no lm_kv_type. */
lm_status lm_options_cache(const lm_engine_options *o, lm_cache_types *out, lm_error *e);

/* `o` may be NULL; for weights of `types` ([n_weights]; NULL: as they are stored). `k` and `arena` are filled and must live as
 * long as the plan. */
lm_status lm_engine_plan(const lm_model *m, const lm_engine_options *o, const lm_dtype *types, lm_kernels *k, lm_arena *arena,
                         lm_plan **out, lm_error *e);

/* The same for another program with the model's weights, and for further values that are kept. `given`: no weight is used where it lies in
 * a file, whatever its kind. */
lm_status lm_engine_plan_of(const lm_model *m, const lm_program *p, const lm_value *kept, uint32_t n_kept, const lm_engine_options *o,
                            const lm_dtype *types, bool given, lm_kernels *k, lm_arena *arena, lm_plan **out, lm_error *e);

/* Adapters that these options name. */
uint32_t lm_options_adapters(const lm_engine_options *o);

/* Bytes that the plan takes. */
lm_memory lm_plan_memory(const lm_plan *p);

/* Threads that these options ask for: in generation, in prompts. */
uint32_t lm_options_threads(const lm_engine_options *o);
uint32_t lm_options_threads_batch(const lm_engine_options *o);

#endif
