/* cluster.h - flags and functions shared by the actions of `lamina cluster`. */
#ifndef LM_CLI_CLUSTER_H
#define LM_CLI_CLUSTER_H

#include "cli/base/options.h"
#include "cli/base/output.h"

typedef struct lm_cluster_flags {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *link, *device, *precision;
    uint64_t       ram;
    uint32_t       nodes, simulate, streams, prompt, grace;
    bool           exact;
} lm_cluster_flags;

/* Run the job given after --, and restart it until it succeeds, a signal stops it, or a restart would not
 * help. */
lm_status lm_cluster_keep_running(lm_cli *cli, const lm_cluster_flags *f, lm_error *e);

lm_status lm_cluster_plan_run(lm_cli *cli, lm_cluster_flags *f, lm_error *e);

#endif
