/* timing.h - the minimum time of a forward pass over all ranks: the steps of each plan and the messages
 * between them. */
#ifndef LM_CLUSTER_TIMING_H
#define LM_CLUSTER_TIMING_H

#include "study/facts/predict.h"
#include "lamina/study/clusterplan.h"
#include "runtime/model/model.h"

/* One rank of an evaluated split. */
typedef struct lm_ranked {
    lm_model   model;                    /* shallow copy with the program of this rank */
    lm_kernels kernels;
    lm_arena   arena;
    lm_plan   *plan;
} lm_ranked;

typedef struct lm_timing {
    const lm_ranked *ranks;              /* [n] */
    uint32_t         n, parts;           /* parts of each layer; n / parts pipeline stages */
    const lm_peaks  *peaks;
    const lm_link   *link;
    bool             simulate;
} lm_timing;

/* Add the time of one forward pass to *out, including `simulated` if requested. LM_NO_MEMORY. */
lm_status lm_time_forward(const lm_timing *t, const lm_forward *f, lm_cluster_time *out, lm_error *e);

/* Count the exchanges and messages of a forward pass of one row with logits, and the maximum bytes that a
 * rank sends in them. */
void      lm_count_exchanges(const lm_timing *t, uint32_t *exchanges, uint64_t *sent);

#endif
