/* cluster.h - one model run by several processes, on one machine or many, through MPI.
 *
 * Every process is a rank with a part of each layer: some attention heads, some lanes of each MLP (tensor parallelism, arXiv 1909.08053).
 * Rank 0 is used as any other model is: lm_engine_new, lm_engine_step and all that stands on them. The others do what it does:
 *
 *   lm_cluster_join(&options, &c, &e);                 on every rank: `mpirun -n 4 program`
 *   model_options.cluster = c;
 *   lm_model_open(path, &model_options, &m, &e);       each maps the file and reads its part
 *   if (lm_cluster_rank(c) > 0)
 *       lm_cluster_follow(c, m, &e);                   until rank 0 leaves
 *
 * Sums over ranks are taken in the order of ranks, so a split gives the same bits on every run, whatever the batch. */
#ifndef LAMINA_CLUSTER_H
#define LAMINA_CLUSTER_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_cluster_options {
    const char *split;               /* "tp=4": parts of each layer, one for each rank; "pp=4": runs of layers; "tp=2,pp=2": both.
                                        "auto" or NULL: as many parts as there are ranks */
    bool        exact;               /* the logits are those of one rank, bit for bit: no sum is cut, and more is sent */
    double      step_timeout;        /* seconds that a rank may take to answer in a step; 0: 60 */
    uint64_t    reserved[8];         /* zero */
} lm_cluster_options;

/* Join the ranks that mpirun started this process with; a process by itself is rank 0 of 1. Once in a process.
 * LM_UNSUPPORTED in a build without MPI, LM_USAGE when the split is of another number of ranks. */
lm_status lm_cluster_join(const lm_cluster_options *o, lm_cluster **out, lm_error *e);

/* A rank that is not there: models opened with it can be looked at (program, plan, sizes) and not run. `o->split` says how many ranks. */
lm_status lm_cluster_imagine(const lm_cluster_options *o, uint32_t rank, lm_cluster **out, lm_error *e);

uint32_t  lm_cluster_rank(const lm_cluster *c);
uint32_t  lm_cluster_ranks(const lm_cluster *c);

/* Whether another rank has failed to answer in time: nothing can be run any more, and lm_cluster_leave ends the other processes. Any
 * thread. */
bool      lm_cluster_lost(const lm_cluster *c);

/* Ranks above 0: do what rank 0 does with its engines of the model, until it leaves. */
lm_status lm_cluster_follow(lm_cluster *c, const lm_model *m, lm_error *e);

/* Rank 0: the others end lm_cluster_follow. Every rank: MPI is left. After a failure the other processes are ended. NULL is nothing. */
void      lm_cluster_leave(lm_cluster *c);

/* A network between two nodes: a message of n bytes takes latency + n / bytes_per_second. */
typedef struct lm_link {
    const char *name, *title;            /* "25gbe", "25 Gbit/s Ethernet, TCP" */
    double      latency;                 /* seconds */
    double      bytes_per_second;
    const char *source;                  /* where the figures are from */
    uint64_t    reserved[2];             /* zero */
} lm_link;

/* The slowest link between rank 0 and any other, measured in about a second by all ranks together: latency of an empty message, bytes a
 * second of a large one. LM_USAGE for a cluster of one rank. */
lm_status lm_cluster_measure(lm_cluster *c, lm_link *out, lm_error *e);

/* The MPI that this build has: "Open MPI v4.1.4"; NULL: it has none. */
const char *lm_cluster_library(void);

#ifdef __cplusplus
}
#endif
#endif
