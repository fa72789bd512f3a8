/* splitting.h - a command that several ranks run together (mpirun -n N lamina run MODEL --split tp=N). */
#ifndef LM_CLI_SPLITTING_H
#define LM_CLI_SPLITTING_H

#include "cli/options.h"

extern const lm_flag lm_split_flag_table[];          /* of commands that run a model; of lm_model_flags */
extern const lm_flag lm_split_look_table[];          /* of commands that look at one */

/* Names a file that is made when another rank is lost: mpirun does not always say so (cluster_run.c). */
#define LM_LOST_MARK "LAMINA_LOST_MARK"

/* Before a command is run: join the others where its flags say so. On ranks above 0 this is all that is done: *followed. */
lm_status lm_split_begin(lm_cli *cli, void *options, bool *followed, lm_error *e);

/* After it. */
void lm_split_end(void);

/* The rank that flags of lm_split_look_table name; as long as the process lives. */
lm_status lm_split_imagine(lm_model_flags *f, lm_error *e);

#endif
