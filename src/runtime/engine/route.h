/* route.h - which experts a row is routed to, in inference and in training: softmax or sigmoid scores, the
 * best groups (arXiv 2405.04434), the best k experts. Depends on the row alone. Any thread. */
#ifndef LM_RUNTIME_ROUTE_H
#define LM_RUNTIME_ROUTE_H

#include "kernels/kernels.h"
#include "program/program.h"

/* Compute softmax or sigmoid of `logits`; both arrays are [n_experts]. */
void lm_route_scores(const lm_route_spec *r, const float *logits, float *scores, const lm_row_kernels *k);

/* Route one row. out: [top_k] weights, then [top_k] expert numbers. `correction` [n_experts] is added for the
 * choice only; NULL: none. `scores` [n_experts] is overwritten. */
void lm_route_row(const lm_route_spec *r, const float *logits, const float *correction, float *scores,
                  float *out, const lm_row_kernels *k);

#endif
