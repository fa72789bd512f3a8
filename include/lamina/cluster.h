/* cluster.h - run one model in several processes, on one machine or many, through MPI.
 *
 * Every process is a rank with a part of each layer: some attention heads, some columns of each MLP (tensor
 * parallelism, arXiv 1909.08053). On rank 0 the model is used as usual: lm_engine_new, lm_engine_step and
 * everything above them. The other ranks follow it:
 *
 *   lm_cluster_join(&options, &c, &e);                 on every rank: `mpirun -n 4 program`
 *   model_options.cluster = c;
 *   lm_model_open(path, &model_options, &m, &e);       each rank maps the file and reads its part
 *   if (lm_cluster_rank(c) > 0)
 *       lm_cluster_follow(c, m, &e);                   until rank 0 leaves
 *
 * Sums over ranks are computed in rank order, so a split gives bit-identical results on every run and for
 * every batch. */
#ifndef LAMINA_CLUSTER_H
#define LAMINA_CLUSTER_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_cluster_options {
    const char *split;               /* "tp=4": parts of each layer, one per rank; "pp=4": groups of layers;
                                        "tp=2,pp=2": both. "auto" or NULL: as many parts as ranks */
    bool        exact;               /* logits bit-identical to those of one rank: no sum is split, and more
                                        data is sent */
    double      step_timeout;        /* timeout of a rank in a step, seconds; 0: 60 */
    uint64_t    reserved[8];         /* zero */
} lm_cluster_options;

/* Join the ranks started by mpirun; without mpirun the process is rank 0 of 1. Call once per process.
 * LM_UNSUPPORTED: a build without MPI. LM_USAGE: the split needs another number of ranks; MPI then stays
 * initialised until the process exits, because mpirun kills the other ranks, and with them the message of
 * rank 0, as soon as one exits with an error. */
lm_status lm_cluster_join(const lm_cluster_options *o, lm_cluster **out, lm_error *e);

/* A rank of a cluster that does not exist: models opened with it can be inspected (program, plan, sizes), but
 * not run. `o->split` gives the number of ranks. */
lm_status lm_cluster_simulate(const lm_cluster_options *o, uint32_t rank, lm_cluster **out, lm_error *e);

uint32_t  lm_cluster_rank(const lm_cluster *c);
uint32_t  lm_cluster_ranks(const lm_cluster *c);

/* Whether another rank timed out: the model can no longer run, and lm_cluster_leave ends the other processes.
 * Any thread. */
bool      lm_cluster_lost(const lm_cluster *c);

/* Ranks above 0: follow the engines of rank 0 until it leaves. */
lm_status lm_cluster_follow(lm_cluster *c, const lm_model *m, lm_error *e);

/* Leave MPI; on rank 0, lm_cluster_follow returns in the other ranks. After a failure the other processes are
 * ended. NULL: no effect. */
void      lm_cluster_leave(lm_cluster *c);

/* A network between two nodes: a message of n bytes takes latency + n / bytes_per_second. */
typedef struct lm_link {
    const char *name, *title;            /* "25gbe", "25 Gbit/s Ethernet, TCP" */
    double      latency;                 /* seconds */
    double      bytes_per_second;
    const char *source;                  /* source of the numbers */
    uint64_t    reserved[2];             /* zero */
} lm_link;

/* Measure the slowest link between rank 0 and any other rank; all ranks call it, about a second: latency of
 * an empty message, bandwidth of a large one. LM_USAGE: a cluster of one rank. */
lm_status lm_cluster_measure(lm_cluster *c, lm_link *out, lm_error *e);

/* The MPI library of this build: "Open MPI v4.1.4"; NULL: none. */
const char *lm_cluster_library(void);

#ifdef __cplusplus
}
#endif
#endif
