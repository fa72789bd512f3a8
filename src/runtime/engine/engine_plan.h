/* engine_plan.h - the plan that an engine with given options would run. */
#ifndef LM_RUNTIME_ENGINE_PLAN_H
#define LM_RUNTIME_ENGINE_PLAN_H

#include "runtime/engine/state.h"

/* Find how the cache stores keys and values; LM_USAGE for a value that is not an lm_kv_type. */
lm_status lm_options_cache(const lm_engine_options *o, lm_cache_types *out, lm_error *e);

/* What to plan. All zero except the model: its plain engine. */
typedef struct lm_engine_subject {
    const lm_model          *model;
    const lm_program        *program;    /* with the model's weights; NULL: the model's */
    const lm_engine_options *options;    /* NULL: the defaults */
    const lm_dtype          *types;      /* [n_weights], as which weights are stored; NULL: as in the file */
    const lm_value          *kept;       /* [n_kept], values to keep in addition to the options' probes */
    uint32_t                 n_kept;
    bool                     caller_weights; /* no weight is used in place from a file */
} lm_engine_subject;

/* Plan an engine. `k` and `arena` are filled, and must live as long as the plan. */
lm_status lm_engine_plan(const lm_engine_subject *s, lm_kernels *k, lm_arena *arena, lm_plan **out,
                         lm_error *e);

/* Return the number of adapters that these options name. */
uint32_t lm_options_adapters(const lm_engine_options *o);

/* Return the bytes that the plan needs. */
lm_memory lm_plan_memory(const lm_plan *p);

/* Return the number of threads that these options request: for generation, for prompts. */
uint32_t lm_options_threads(const lm_engine_options *o);
uint32_t lm_options_threads_batch(const lm_engine_options *o);

#endif
