/* compile.h - what the parts of the compiler share: the program so far, its values, and the steps that are made. */
#ifndef LM_PLAN_COMPILE_H
#define LM_PLAN_COMPILE_H

#include "plan/plan.h"

/* What is known about a value while its program is compiled. */
typedef struct lm_value_state {
    bool     all;            /* needed for every row */
    bool     probed;
    uint32_t uses;
    uint32_t consumer;       /* the last operation that reads it */
    uint32_t buffer;
    uint32_t gathered;       /* buffer of its wanted rows */
    uint32_t packed;         /* buffer of its packed rows … */
    const lm_activation *packed_as;
    lm_domain packed_domain; /* … in this form */
    float    folded;         /* of a sum with what an adapter adds, in the buffer of a product: what the product was scaled by */
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

/* A buffer of `stride` bytes for each row of a domain; for each assignment to an expert: `times` as many. */
uint32_t lm_plan_routed(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain, uint32_t times);
uint32_t lm_plan_buffer(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain);
uint32_t lm_plan_value(lm_compiler *c, lm_value v);
lm_step *lm_plan_step(lm_compiler *c, lm_step_code code, uint32_t node, lm_domain domain);

/* The buffer that holds `v` for the rows of `domain`; the wanted rows of a value that exists for all are gathered once. */
uint32_t lm_plan_input(lm_compiler *c, lm_value v, lm_domain domain);

/* `v` as a kind of matmul reads it. */
uint32_t lm_plan_packed(lm_compiler *c, lm_value v, lm_domain domain, const lm_matmul *m);

/* ---- from operations to steps ---- */

/* All of the program, in order (steps.c). */
void lm_plan_steps(lm_compiler *c);

/* A mixture of experts (dispatch.c). */
void lm_plan_experts(lm_compiler *c, uint32_t index);

/* Steps into stages, and the lives of buffers (stages.c). */
void lm_plan_stages(lm_compiler *c);

#endif
