/* variant.h - an engine other than a model's plain one: of its program with interventions, or of the end of
 * it; with values kept that have no path; on the weights of an existing engine. Tracing is built on these.
 *
 * An engine that is not traced has none of this: its plan is unchanged, and a step costs it one
 * comparison. */
#ifndef LM_RUNTIME_VARIANT_H
#define LM_RUNTIME_VARIANT_H

#include "runtime/engine/caller_weights.h"

typedef struct lm_engine_variant {
    const lm_program *program;   /* with the model's weights, in the same order; NULL: the model's */
    const lm_value   *kept;      /* [n_kept]: values of it that are kept for every row, in addition to those
                                    of the options */
    uint32_t          n_kept;
    const lm_engine  *weights;   /* engine whose weights are used in place, as long as this engine lives;
                                    NULL: it loads its own */
    lm_caller_weights *caller_weights;      /* source of the weights (caller_weights.h); NULL: the file of the
                                               model */
    void             *caller_weights_arg;
} lm_engine_variant;

/* Make an engine like lm_engine_new. LM_USAGE also if the other engine stores weights differently: its
 * options for arithmetic, instruction set and repacking must be the same. */
lm_status lm_engine_new_variant(const lm_model *m, const lm_engine_options *o, const lm_engine_variant *v,
                                lm_engine **out, lm_error *e);

/* Return a kept value for row i of the last step; NULL: not kept, or not available for this row. */
const float *lm_engine_value(const lm_engine *g, lm_value v, size_t i);

/* Read a row of a matrix or table as float32: out [columns]. */
void lm_engine_weight_row(const lm_engine *g, uint32_t weight, uint64_t row, float *out);

/* Measure the time of every step of the plan instead of kinds of work, in nanoseconds summed over all
 * workers: ns [n_steps of the plan]. Otherwise like lm_engine_profile_start and _stop. */
lm_status lm_engine_time_steps(lm_engine *g, lm_error *e);
void      lm_engine_step_times(const lm_engine *g, uint64_t *ns);
void      lm_engine_time_steps_end(lm_engine *g);

#endif
