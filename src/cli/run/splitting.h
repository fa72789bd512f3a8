/* splitting.h - commands that several ranks run together (mpirun -n N lamina run MODEL --split tp=N). */
#ifndef LM_CLI_SPLITTING_H
#define LM_CLI_SPLITTING_H

#include "cli/base/options.h"

/* for commands that run a model; offsets in lm_model_flags */
extern const lm_flag lm_split_flag_table[];
extern const lm_flag lm_split_inspect_table[];       /* for commands that inspect a model */

/* Environment variable with the path of a file that is created when another rank is lost, since mpirun does
 * not always report this (cluster_run.c). */
#define LM_LOST_MARK "LAMINA_LOST_MARK"

/* Join the other ranks before a command runs, if its flags request it. On ranks above 0 this is the whole
 * work, and *followed is set: the command must not run. */
lm_status lm_split_begin(lm_cli *cli, void *options, bool *followed, lm_error *e);

/* Leave the other ranks after the command. Creates the file of LM_LOST_MARK if another rank was lost. */
void lm_split_end(void);

/* Set f->o.cluster to the rank given by the flags of lm_split_inspect_table, without other ranks. It is valid
 * until the next call. */
lm_status lm_split_simulate(lm_model_flags *f, lm_error *e);

#endif
