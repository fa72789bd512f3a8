/* splitting.c - join other ranks before a command and leave them after it. */
#include "cli/run/splitting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/output.h"

#define M(member) offsetof(lm_model_flags, member)

#define SPLIT \
    { "--split", NULL, LM_FLAG_TEXT, M(split), "tp=N|pp=N|tp=N,pp=M|auto", \
      "split into parts of each layer (tp), consecutive layers (pp), or both; " \
      "one part per rank of mpirun -n N", 0, 0, NULL }, \
    { "--exact-split", NULL, LM_FLAG_SWITCH, M(exact_split), NULL, \
      "logits bit-identical to those of one rank; sends more", 0, 0, NULL }

const lm_flag lm_split_flag_table[] = {
    SPLIT,
    { "--step-timeout", NULL, LM_FLAG_DOUBLE, M(step_timeout), "SECONDS",
      "maximum time for a rank to answer in a step (60)", 0.001, 1e6, NULL },
    { 0 },
};

const lm_flag lm_split_inspect_table[] = {
    SPLIT,
    { "--rank", NULL, LM_FLAG_COUNT, M(rank), "N", "rank whose part is shown, from 0 (0)", 0, 4095, NULL },
    { 0 },
};

static lm_cluster *joined;

/* Return the model flags of a command that several ranks can run; NULL: they cannot. */
static lm_model_flags *flags_of(const lm_command *c, void *options)
{
    for (const lm_flag_group *g = c->groups; g && g->title; g++)
        if (g->flags == lm_split_flag_table)
            return (lm_model_flags *)(void *)((char *)options + g->base);
    return NULL;
}

/* Return whether this is a rank above 0: rank 0 reports the errors that all ranks have in common. */
static bool is_reported_by_rank_0(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    rank = rank ? rank : getenv("PMI_RANK");
    return rank && strcmp(rank, "0") != 0;
}

static lm_status follow(lm_cli *cli, lm_model_flags *f, lm_error *e)
{
    lm_model *m = NULL;
    lm_status status;

    lm_out_configure(false, true, cli->plain);              /* only rank 0 prints */
    status = lm_open_model(cli, f, f->model ? NULL : cli->n_args ? cli->args[0] : NULL, &m, e);
    cli->error_printed |= status == LM_USAGE;
    if (status == LM_OK)
        status = lm_cluster_follow(joined, m, e);
    lm_model_close(m);
    return status;
}

lm_status lm_split_begin(lm_cli *cli, void *options, bool *followed, lm_error *e)
{
    lm_model_flags *f = cli->help ? NULL : flags_of(cli->command, options);

    *followed = false;
    if (!f || !f->split) {
        if (f && f->exact_split)
            return lm_fail(e, LM_USAGE, "--exact-split", LM_NO_OFFSET, "requires --split");
        return LM_OK;
    }
    lm_cluster_options o = { .split = f->split, .exact = f->exact_split, .step_timeout = f->step_timeout };
    lm_status status = lm_cluster_join(&o, &joined, e);
    cli->error_printed = (status == LM_USAGE || status == LM_UNSUPPORTED) && is_reported_by_rank_0();
    LM_TRY(status);
    f->o.cluster = joined;
    if (lm_cluster_rank(joined) == 0)
        return LM_OK;
    *followed = true;
    return follow(cli, f, e);
}

static void mark_lost(void)
{
    const char *path = getenv(LM_LOST_MARK);
    FILE       *f    = path && lm_cluster_lost(joined) ? fopen(path, "w") : NULL;

    if (f)
        fclose(f);
}

void lm_split_end(void)
{
    mark_lost();
    lm_cluster_leave(joined);
    joined = NULL;
}

lm_status lm_split_simulate(lm_model_flags *f, lm_error *e)
{
    static lm_cluster *imagined;
    bool alone = !f->exact_split && !f->rank;

    if (!f->split)
        return alone ? LM_OK
                     : lm_fail(e, LM_USAGE, f->rank ? "--rank" : "--exact-split", LM_NO_OFFSET,
                               "requires --split");
    lm_cluster_leave(imagined);
    imagined = NULL;
    LM_TRY(lm_cluster_simulate(&(lm_cluster_options){ .split = f->split, .exact = f->exact_split }, f->rank,
                               &imagined, e));
    f->o.cluster = imagined;
    return LM_OK;
}
