/* cost.h - what a step of a plan costs: the one description. Limits, profiles, forecasts and predicted speeds are sums of it.
 *
 * Counted are products - with weights, and of queries and probabilities with the cache - and what is read for them once. */
#ifndef LM_PLAN_COST_H
#define LM_PLAN_COST_H

#include "base/checked.h"
#include "plan/plan.h"

/* Rows `first` … first + rows - 1 of each of `sequences`; logits of `wanted` rows in all. */
typedef struct lm_forward { uint64_t rows, first, sequences, wanted; } lm_forward;

typedef struct lm_step_costs {
    uint64_t      rows;          /* of the step's domain, each once per expert that it is routed to */
    uint64_t      width;         /* float32 lanes of a row that the step makes, or packs */
    /* products with weights and with the cache: */
    lm_arithmetic arithmetic;
    lm_wide       operations;    /* a multiplication and an addition are two */
    /* with weights: */
    uint64_t      matrices;      /* [outs][cols], one after another: experts, heads; else 1 */
    uint64_t      outs, cols;
    lm_wide       weight_bytes;  /* each matrix once; experts: those that are routed to on average, were all equally likely */
    /* with the cache: */
    uint64_t      keys;          /* seen, added up over all new rows: in the last layer, which computes the wanted ones, at most */
    uint64_t      key_bytes;     /* of one position, with its value */
    lm_wide       cache_bytes;   /* each position once, however many rows see it */
} lm_step_costs;

/* Whether a step multiplies with weights. */
bool lm_is_product(const lm_step *s);

/* Of one step in a forward; all zero but `width` and what does not depend on rows when it has none. A forward has at most 65536 rows
 * and UINT32_MAX positions: nothing overflows. Never fails; thread-safe. */
void lm_step_cost(const lm_plan *p, const lm_step *s, const lm_forward *f, lm_step_costs *out);

#endif
