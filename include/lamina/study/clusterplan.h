/* study/clusterplan.h - plan a model on several nodes: memory, bytes sent and speed of every possible split.
 *
 * Sizes are those of the plans that the ranks would run. Times are lower bounds: the roofline of each rank's
 * plan (fit.h), plus the latency and transfer time of its exchanges. An exchange of N ranks takes ceil(log2
 * N) consecutive messages and brings every rank what the N - 1 others send. */
#ifndef LAMINA_CLUSTERPLAN_H
#define LAMINA_CLUSTERPLAN_H

#include "lamina/cluster.h"
#include "lamina/study/device.h"
#include "lamina/engine.h"
#include "lamina/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By name: "25gbe"; NULL past the end. */
const lm_link *lm_link_at(size_t i);

/* LM_USAGE lists the known names. */
lm_status      lm_link_find(const char *name, const lm_link **out, lm_error *e);

typedef struct lm_cluster_plan_options {
    lm_engine_options engine;            /* context, cache type, rows …; sequences: `streams` instead */
    const lm_device  *device;            /* that every node is; NULL: this machine */
    const lm_limits  *limits;            /* of this machine, for its speeds; NULL: unknown */
    uint64_t          memory;            /* bytes of a node for the model; 0: the device's less its reserve,
                                            or what is available */
    const char       *precision;         /* NULL: as stored where there are weights, else the most exact one
                                            in which some split fits */
    const lm_link    *link;              /* between any two nodes; NULL: the first of the catalogue */
    uint32_t          nodes;             /* up to 256, a rank on each; 0: 1 */
    uint32_t          streams;           /* "many": sequences of each copy at once; 0: 8 */
    uint32_t          prompt;            /* prompt length for the time to the first token; 0: 512, or the
                                            context */
    bool              exact;             /* only splits whose logits are bit-identical to those of one rank */
    bool              simulate;          /* also compute each exchange message by message */
    uint64_t          reserved[4];       /* zero */
} lm_cluster_plan_options;

/* What one token takes: seconds. */
typedef struct lm_cluster_time {
    double computing;                    /* of the slowest rank */
    double latency, transfer;            /* of the network: consecutive messages; received bytes */
    double rate;                         /* tokens per second of all streams; 0: unknown */
    double simulated;                    /* seconds of the token with every rank and message computed
                                            separately; 0: not requested */
    uint64_t reserved[2];                /* zero */
} lm_cluster_time;

typedef struct lm_cluster_row {
    uint32_t tp, pp;                     /* parts of each layer, and runs of layers */
    uint32_t copies;                     /* of the whole split on all nodes; each serves as many streams */
    bool     fits;
    bool     tight;                      /* fits, but less than 5 % of a node's memory is left */
    uint32_t largest;                    /* the rank that needs most, and what it needs: bytes */
    uint64_t weights, kv, scratch, total;
    uint64_t weights_of_all;             /* all ranks of a copy together: what the split holds more than once
                                            is more than the model */
    uint32_t exchanges;                  /* of one token */
    uint64_t sent;                       /* bytes that a rank sends for one token of one stream: the most of
                                            any */
    lm_cluster_time one, many;           /* one stream alone; `streams` in each copy, rate: all copies
                                            together */
    lm_cluster_time first;               /* the prompt up to the first token; rate: prompt tokens per
                                            second */
    uint64_t reserved[4];                /* zero */
} lm_cluster_row;

enum { LM_CLUSTER_ROWS = 136 };       /* as many as 240 nodes have, the most of all */

typedef struct lm_cluster_plan {
    uint64_t memory;                     /* of a node, that the model can have */
    uint64_t context, prompt;
    uint32_t nodes, streams;
    const char *precision, *level;
    lm_link  link;
    uint32_t max_tp;                     /* maximum parts of a layer */
    size_t   n;
    lm_cluster_row rows[LM_CLUSTER_ROWS];        /* every split whose copies fill the nodes; fewest ranks
                                                    first */
    int      best_one, best_many, best_first;    /* of the rows that fit; -1: none, or speeds are unknown */
    uint64_t reserve;                    /* bytes of a node that others need, not in `memory` */
    uint64_t reserved[3];                /* zero */
} lm_cluster_plan;

/* Plan a model without measuring or starting anything. LM_OK also if nothing fits. `m`: a whole model.
 * LM_USAGE: impossible options. */
lm_status lm_cluster_plan_model(const lm_model *m, const lm_cluster_plan_options *o, lm_cluster_plan *out,
                                lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
