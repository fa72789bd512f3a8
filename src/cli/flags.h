/* flags.h - the command line of one command, read into its options. */
#ifndef LM_CLI_FLAGS_H
#define LM_CLI_FLAGS_H

#include "cli/command.h"

/* What every command takes, before its name too; offsets are those of lm_cli. */
extern const lm_flag lm_general_flags[];

/* Those before the name of the command: *used of the `n` arguments. Stops at the first that is none. */
lm_status lm_flags_read_general(lm_cli *cli, char **argv, size_t n, size_t *used, lm_error *e);

/* `--name value`, `--name=value`, `-n value`; `--top_k` is `--top-k`; `--` ends the flags; "-" alone is an argument.
 * After --help nothing more is read but --json. LM_USAGE names the flag, and the nearest one for one that does not exist. */
lm_status lm_flags_read(lm_cli *cli, char **argv, size_t n, void *options, lm_error *e);

/* The first flag given that `table` has and that is not `but` (NULL-ended; NULL: none); NULL when there is none. */
const lm_flag *lm_flags_given(const lm_cli *cli, const lm_flag *table, const char *const *but);

/* An error about an option of the library ("top_p") names the flag that sets it ("--top-p"): `f`, where it does. */
void lm_flag_name_error(const lm_flag *f, lm_error *e);

/* One value, at its place in the options. */
lm_status lm_flags_set(lm_cli *cli, const lm_flag *f, void *at, const char *value, lm_error *e);

/* What the environment sets, as help. */
void lm_environment_help(lm_text *out);

/* The help of a command. */
void lm_flags_help(const lm_command *c, lm_text *out);

#endif
