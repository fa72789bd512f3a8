/* flags.h - read the command line of a command into its options. */
#ifndef LM_CLI_FLAGS_H
#define LM_CLI_FLAGS_H

#include "cli/base/command.h"

/* The flags of every command, accepted also before its name. Offsets are in lm_cli. */
extern const lm_flag lm_general_flags[];

/* Find a flag of a table by one of its spellings, or NULL. */
const lm_flag *lm_flag_find(const lm_flag *table, const char *name);

/* Read the general flags before the name of the command. *used: the number of arguments read. Stops at the
 * first that is not such a flag. */
lm_status lm_flags_read_general(lm_cli *cli, char **argv, size_t n, size_t *used, lm_error *e);

/* Read `--name value`, `--name=value` and `-n value`; `--top_k` is `--top-k`; `--` ends the flags; "-" alone
 * is an argument. After --help only --json is read. LM_USAGE names the flag, and for an unknown one the
 * nearest flag. */
lm_status lm_flags_read(lm_cli *cli, char **argv, size_t n, void *options, lm_error *e);

/* Return the first given flag that is in `table` and not in `but` (NULL-ended; NULL: empty), or NULL. */
const lm_flag *lm_flags_given(const lm_cli *cli, const lm_flag *table, const char *const *but);

/* If an LM_USAGE error is about the library option ("top_p") that `f` sets, make it name the flag
 * ("--top-p"). */
void lm_flag_name_error(const lm_flag *f, lm_error *e);

/* Split the items of a list at commas, except those in brackets and in names of existing files. LM_USAGE: an
 * empty item; the error names `flag`. */
lm_status lm_flag_split(lm_cli *cli, const char *flag, lm_flag_list *list, lm_error *e);

/* Read one value of a flag and store it at `at`, its address in the options. */
lm_status lm_flags_set(lm_cli *cli, const lm_flag *f, void *at, const char *value, lm_error *e);

/* Append the help of environment variables. */
void lm_environment_help(lm_text *out);

/* Append what a command does and its flags. */
void lm_flags_help(const lm_command *c, lm_text *out);

#endif
