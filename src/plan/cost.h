/* cost.h - the cost of a step of a plan, defined in one place. Limits, profiles, forecasts and predicted
 * speeds are sums of it.
 *
 * The cost counts products (with weights, and of queries and probabilities with the cache) and the bytes read
 * for them, once each. */
#ifndef LM_PLAN_COST_H
#define LM_PLAN_COST_H

#include "base/checked.h"
#include "plan/plan.h"

/* A forward pass over rows `first` … first + rows - 1 of each of `sequences` sequences, with logits of
 * `wanted` rows in total. */
typedef struct lm_forward { uint64_t rows, first, sequences, wanted; } lm_forward;

typedef struct lm_step_costs {
    uint64_t      rows;          /* rows of the step's domain, each once per expert that it is routed to */
    uint64_t      width;         /* float32 lanes per row that the step computes, or packs */
    /* products with weights and with the cache: */
    lm_arithmetic arithmetic;
    lm_wide       operations;    /* a multiplication and an addition are two */
    /* with weights: */
    uint64_t      matrices;      /* number of matrices [outs][cols]: experts, heads; else 1 */
    uint64_t      outs, cols;
    lm_wide       weight_bytes;  /* each matrix once; experts: the expected number of those routed to, if all
                                    are equally likely */
    /* with the cache: */
    uint64_t      keys;          /* visible keys, summed over the rows; where only wanted rows are computed,
                                    over the last ones of every sequence */
    uint64_t      key_bytes;     /* bytes of one position, including its value */
    lm_wide       cache_bytes;   /* each position once, for all rows to which it is visible */
} lm_step_costs;

/* Return whether a step multiplies with weights. */
bool lm_is_product(const lm_step *s);

/* Compute the cost of one step in a forward pass. If the step has no rows, members that depend on rows are
 * zero. A forward pass has at most 65536 rows and UINT32_MAX positions, so nothing overflows. Never fails;
 * thread-safe. */
void lm_step_cost(const lm_plan *p, const lm_step *s, const lm_forward *f, lm_step_costs *out);

#endif
