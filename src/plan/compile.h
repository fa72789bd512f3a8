/* compile.h - shared by the parts of the compiler: its state, the values of the program, and the creation of
 * steps. */
#ifndef LM_PLAN_COMPILE_H
#define LM_PLAN_COMPILE_H

#include "plan/plan.h"

/* The state of a value while its program is compiled. */
typedef struct lm_value_state {
    bool     all;            /* needed for every row */
    bool     probed;
    uint32_t uses;
    uint32_t consumer;       /* the last operation that reads it */
    uint32_t buffer;
    uint32_t gathered;       /* buffer of its wanted rows */
    uint32_t packed;         /* buffer of its packed rows */
    const lm_activation *packed_as;
    lm_domain packed_domain; /* layout and domain of `packed` */
    float    folded;         /* for a sum with an adapter's output in the buffer of a product: the scale of
                                that product */
} lm_value_state;

typedef struct lm_compiler {
    const lm_program      *p;
    const lm_plan_options *o;
    lm_plan               *plan;
    lm_value_state        *values;
    bool                  *done;     /* operations that were fused into an earlier one */
} lm_compiler;

static inline lm_domain lm_domain_of(const lm_compiler *c, lm_value v)
{
    return c->values[v].all ? LM_ALL_ROWS : LM_WANTED_ROWS;
}

/* ---- buffers and steps (steps.c) ---- */

/* Add a buffer of `stride` bytes per row of a domain; lm_plan_routed, of `stride` bytes per assignment to an
 * expert, `times` per row. Add the buffer of a value. Add a step. */
uint32_t lm_plan_routed(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain, uint32_t times);
uint32_t lm_plan_buffer(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain);
uint32_t lm_plan_value(lm_compiler *c, lm_value v);
lm_step *lm_plan_step(lm_compiler *c, lm_step_code code, uint32_t node, lm_domain domain);

/* Return the buffer that holds `v` for the rows of `domain`. The wanted rows of a value that exists for all
 * rows are gathered once. */
uint32_t lm_plan_input(lm_compiler *c, lm_value v, lm_domain domain);

/* Return the buffer that holds `v` in the layout that a matmul reads. */
uint32_t lm_plan_packed(lm_compiler *c, lm_value v, lm_domain domain, const lm_matmul *m);

/* ---- compilation ---- */

/* Compile the whole program, in order (steps.c). */
void lm_plan_steps(lm_compiler *c);

/* Compile a mixture of experts (dispatch.c). */
void lm_plan_experts(lm_compiler *c, uint32_t index);

/* Group steps into stages and compute the lifetimes of buffers (stages.c). */
void lm_plan_stages(lm_compiler *c);

#endif
