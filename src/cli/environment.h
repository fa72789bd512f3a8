/* environment.h - flags that the environment sets: LAMINA_ARG_CTX_SIZE for --ctx-size, as llama.cpp has it. */
#ifndef LM_CLI_ENVIRONMENT_H
#define LM_CLI_ENVIRONMENT_H

#include "cli/command.h"

/* Flags of a command (`environment`) that the command line does not give, from the variables that are called after one of their long
 * spellings. A switch is on at 1, true, on, yes, off at 0, false, off, no; a flag that may be repeated takes values with spaces between.
 * LM_USAGE names the variable. */
lm_status lm_environment_read(lm_cli *cli, void *options, lm_error *e);

#endif
