/* clusterplan.h - a model on several nodes before any of them is there: every way of splitting it, what each needs, sends and could do.
 *
 * Sizes are those of the plans that the ranks would run, one by one; nothing is estimated. Times are a floor: the roofline of each rank's
 * plan (fit.h) and what the network takes for the exchanges of that plan, each by latency and by bytes. An exchange of N ranks takes
 * ceil(log2 N) messages one after another and brings every rank what the N - 1 others send. */
#ifndef LAMINA_CLUSTERPLAN_H
#define LAMINA_CLUSTERPLAN_H

#include "lamina/cluster.h"
#include "lamina/device.h"
#include "lamina/engine.h"
#include "lamina/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By name: "25gbe"; NULL past the end. */
const lm_link *lm_link_at(size_t i);

/* LM_USAGE lists those that there are. */
lm_status      lm_link_find(const char *name, const lm_link **out, lm_error *e);

typedef struct lm_cluster_plan_options {
    lm_engine_options engine;            /* context, cache type, rows …; sequences: `streams` instead */
    const lm_device  *device;            /* that every node is; NULL: this machine */
    const lm_limits  *limits;            /* of this machine, for its speeds; NULL: they are not known */
    uint64_t          memory;            /* bytes of a node; 0: all of the device's, or what is available here */
    const char       *precision;         /* NULL: as stored where there are weights, else the most exact one in which some split fits */
    const lm_link    *link;              /* between any two nodes; NULL: the first of the catalogue */
    uint32_t          nodes;             /* 1 … 256, a rank on each */
    uint32_t          streams;           /* "many": sequences of each copy at once; 0: 8 */
    uint32_t          prompt;            /* tokens of the prompt whose first token is waited for; 0: 512, or the context */
    bool              exact;             /* splits whose logits are those of one rank */
    bool              simulate;          /* each exchange message by message, too */
    uint64_t          reserved[4];       /* zero */
} lm_cluster_plan_options;

/* What one token takes: seconds. */
typedef struct lm_cluster_time {
    double computing;                    /* of the slowest rank */
    double latency, transfer;            /* on the network: messages that wait for each other; bytes that come */
    double rate;                         /* tokens a second of all streams; 0: not known */
    double simulated;                    /* seconds of the token, every rank and message by itself; 0: not asked for */
    uint64_t reserved[2];                /* zero */
} lm_cluster_time;

typedef struct lm_cluster_row {
    uint32_t tp, pp;                     /* parts of each layer, and runs of layers */
    uint32_t copies;                     /* of the whole split on all nodes; each serves as many streams */
    bool     fits;
    uint32_t largest;                    /* the rank that needs most, and what it needs: bytes */
    uint64_t weights, kv, scratch, total;
    uint64_t weights_of_all;             /* all ranks of a copy together: what the split holds more than once is more than the model */
    uint32_t exchanges;                  /* of one token */
    uint64_t sent;                       /* bytes that a rank sends for one token of one stream: the most of any */
    lm_cluster_time one, many;           /* one stream alone; `streams` in each copy, rate: all copies together */
    lm_cluster_time first;               /* the prompt up to the first token; rate: tokens of the prompt a second */
    uint64_t reserved[4];                /* zero */
} lm_cluster_row;

enum { LM_CLUSTER_ROWS = 136 };       /* as many as 240 nodes have, the most of all */

typedef struct lm_cluster_plan {
    uint64_t memory;                     /* of a node */
    uint64_t context, prompt;
    uint32_t nodes, streams;
    const char *precision, *level;
    lm_link  link;
    uint32_t most_tp;                    /* more parts of a layer are refused */
    size_t   n;
    lm_cluster_row rows[LM_CLUSTER_ROWS];        /* every split of which whole copies fill the nodes; fewest ranks first */
    int      best_one, best_many, best_first;    /* of the rows that fit; -1: none, or speeds are not known */
    uint64_t reserved[4];                /* zero */
} lm_cluster_plan;

/* Nothing is measured and nothing is started. LM_OK also when nothing fits. `m`: a whole model. LM_USAGE for impossible options. */
lm_status lm_cluster_plan_model(const lm_model *m, const lm_cluster_plan_options *o, lm_cluster_plan *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
