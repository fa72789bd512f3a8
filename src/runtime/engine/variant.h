/* variant.h - an engine beside a model's own: of its program with interventions, or of the end of it; with values kept that have no path
 * of their own; on the weights of an engine that is there already. What traces is made of these.
 *
 * An engine that nobody traces has none of this: its plan is the same plan, and a step costs it one comparison. */
#ifndef LM_RUNTIME_VARIANT_H
#define LM_RUNTIME_VARIANT_H

#include "runtime/engine/given.h"

typedef struct lm_engine_variant {
    const lm_program *program;   /* with the model's weights, number for number; NULL: the model's */
    const lm_value   *kept;      /* [n_kept]: values of it that are kept for every row, beside those of the options */
    uint32_t          n_kept;
    const lm_engine  *weights;   /* whose weights are used where they lie, as long as this engine lives; NULL: its own are loaded */
    lm_given_values  *given;     /* whose numbers are used instead of those that the model stores (given.h); NULL: the model's */
    void             *given_arg;
} lm_engine_variant;

/* As lm_engine_new. LM_USAGE also where the other engine keeps weights in another way: its options for arithmetic, instruction set and
 * repacking must be the same. */
lm_status lm_engine_new_variant(const lm_model *m, const lm_engine_options *o, const lm_engine_variant *v, lm_engine **out, lm_error *e);

/* A kept value for row i of the last step; NULL: not kept, or not there for this row. */
const float *lm_engine_value(const lm_engine *g, lm_value v, size_t i);

/* A row of a matrix or table as float32: out [columns]. */
void lm_engine_weight_row(const lm_engine *g, uint32_t weight, uint64_t row, float *out);

/* The time of every step of the plan instead of kinds of work, in nanoseconds of all workers: ns [n_steps of the plan]. Otherwise as
 * lm_engine_profile_start and _stop. */
lm_status lm_engine_time_steps(lm_engine *g, lm_error *e);
void      lm_engine_step_times(const lm_engine *g, uint64_t *ns);
void      lm_engine_time_steps_end(lm_engine *g);

#endif
