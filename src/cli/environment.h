/* environment.h - flags set by environment variables: LAMINA_ARG_CTX_SIZE for --ctx-size, as in llama.cpp. */
#ifndef LM_CLI_ENVIRONMENT_H
#define LM_CLI_ENVIRONMENT_H

#include "cli/base/command.h"

/* Set flags that the command line does not contain from variables named after one of their long spellings,
 * for commands with `environment`. A switch is on for 1, true, on, yes, enabled, and unchanged for 0, false,
 * off, no, disabled or an empty value. The values of a flag that may be repeated are separated by spaces.
 * LM_USAGE names the variable. */
lm_status lm_environment_read(lm_cli *cli, void *options, lm_error *e);

#endif
