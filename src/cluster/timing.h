/* timing.h - what a forward of all ranks takes at least: the steps of each plan, and the messages between them. */
#ifndef LM_CLUSTER_TIMING_H
#define LM_CLUSTER_TIMING_H

#include "analysis/facts/predict.h"
#include "lamina/clusterplan.h"
#include "runtime/engine/model.h"

/* One rank of a split that is looked at. */
typedef struct lm_ranked {
    lm_model   model;                    /* shallow: with the program of this rank */
    lm_kernels kernels;
    lm_arena   arena;
    lm_plan   *plan;
} lm_ranked;

typedef struct lm_timing {
    const lm_ranked *ranks;              /* [n] */
    uint32_t         n, parts;           /* parts of each layer; n / parts runs of layers */
    const lm_peaks  *peaks;
    const lm_link   *link;
    bool             simulate;
} lm_timing;

/* Adds the time of one forward to *out; `simulated` where that is asked for. LM_NO_MEMORY. */
lm_status lm_time_forward(const lm_timing *t, const lm_forward *f, lm_cluster_time *out, lm_error *e);

/* Exchanges and messages of a forward of one row that wants logits, and the bytes that a rank sends in them: the most of any. */
void      lm_count_exchanges(const lm_timing *t, uint32_t *exchanges, uint64_t *sent);

#endif
