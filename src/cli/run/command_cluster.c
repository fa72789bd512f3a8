/* lamina cluster - plan a model on several nodes, and keep a job of several ranks running. A build without
 * the study has only the second. */
#include <stdint.h>
#include <string.h>

#include "cli/base/flags.h"
#include "cli/run/cluster.h"

#define O(field) offsetof(lm_cluster_flags, field)

static const lm_flag job_flag_table[] = {
    { "--grace", NULL, LM_FLAG_COUNT, O(grace), "N",
      "seconds that the job has to end after a termination signal; then it is killed (60)", 1, 86400, NULL },
    { 0 },
};

#ifndef LM_WITHOUT_STUDY
static const lm_flag plan_flag_table[] = {
    { "--nodes", NULL, LM_FLAG_COUNT, O(nodes), "N", "nodes, with one rank on each", 1, 256, NULL },
    { "--simulate", NULL, LM_FLAG_COUNT, O(simulate), "N",
      "as --nodes, with every message between the ranks computed separately", 1, 256, NULL },
    { "--link", NULL, LM_FLAG_TEXT, O(link), "NAME",
      "network between nodes: 1gbe, 10gbe, 25gbe, 100gbe, ib400; measure: between the ranks of this mpirun "
      "(25gbe)", 0, 0, NULL },
    { "--device", NULL, LM_FLAG_TEXT, O(device), "NAME",
      "device of each node, from the catalogue (lamina devices; default: this machine)", 0, 0, NULL },
    { "--ram", NULL, LM_FLAG_SIZE, O(ram), "SIZE",
      "memory of a node: 16G (decimal), 16GiB (binary)", 0, 0, NULL },
    { "--precision", NULL, LM_FLAG_TEXT, O(precision), "TYPE",
      "weight precision (default: as stored; without weights, the most precise one that fits)", 0, 0, NULL },
    { "--streams", NULL, LM_FLAG_COUNT, O(streams), "N",
      "streams at once in each copy of the model (8)", 1, 1 << 12, NULL },
    { "--prompt", NULL, LM_FLAG_COUNT, O(prompt), "N",
      "prompt length for the time to the first token, in tokens (512)", 1, 1 << 24, NULL },
    { "--exact-split", NULL, LM_FLAG_SWITCH, O(exact), NULL,
      "only splits whose logits are bit-identical to those of one rank", 0, 0, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: the model's full context (default: the same, at most 8192)",
      0, INT32_MAX, NULL },
    { "--ubatch-size", "-ub", LM_FLAG_COUNT, O(run.ubatch), "N",
      "physical batch size in tokens (512)", 1, 1 << 16, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(run.threads), "N", "threads on this machine", 0, 1024, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(run.cpu), "LEVEL", "instruction set on this machine", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group cluster_groups[] = {
    { "plan", plan_flag_table, 0 },
    { "run", job_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static lm_status plan(lm_cli *cli, void *options, lm_error *e)
{
    if (cli->n_args > 2)
        return lm_fail(e, LM_USAGE, cli->args[2], LM_NO_OFFSET, "only one model may be given");
    return lm_cluster_plan_run(cli, options, e);
}

#define USAGE "plan MODEL --nodes N [--link NAME] [--device NAME] | run [--grace N] -- COMMAND …"
#define SUMMARY "plan a model on several machines, and keep a job running"
#define ABOUT_PLAN                                                                                          \
    "  Lists every split whose copies fill the nodes. Memory is that of the ranks' plans. Speeds "           \
    "are upper bounds set by\n"                                                                              \
    "  memory, arithmetic and network. docs/guide/cluster.md describes how splits are run.\n"
#else
static const lm_flag_group cluster_groups[] = { { "run", job_flag_table, 0 }, { 0 } };

static lm_status plan(lm_cli *cli, void *options, lm_error *e)
{
    (void)cli, (void)options;
    return lm_fail(e, LM_USAGE, "plan", LM_NO_OFFSET, "this build leaves plans of clusters out");
}

#define USAGE   "run [--grace N] -- COMMAND …"
#define SUMMARY "keep a job of several ranks running"
#define ABOUT_PLAN
#endif

static void cluster_defaults(void *options)
{
    lm_cluster_flags *f = options;

    lm_run_defaults(&f->run);
    f->grace = 60;
}

static lm_status cluster(lm_cli *cli, void *options, lm_error *e)
{
    if (strcmp(cli->args[0], "run") == 0)
        return lm_cluster_keep_running(cli, options, e);
    if (strcmp(cli->args[0], "plan") == 0)
        return plan(cli, options, e);
    return lm_fail(e, LM_USAGE, cli->args[0], LM_NO_OFFSET, "unknown action; plan or run");
}

const lm_command lm_command_cluster = {
    .name = "cluster",
    .usage = USAGE,
    .summary = SUMMARY,
    .about = ABOUT_PLAN
             "  run starts COMMAND, an mpirun, and restarts it when it fails: after 1, 2, 4 … 30 seconds.\n",
    .groups = cluster_groups,
    .min_args = 1,
    .max_args = SIZE_MAX,
    .options_size = sizeof(lm_cluster_flags),
    .defaults = cluster_defaults,
    .run = cluster,
};
