/* help.h - what the commands do, as a text or as data. */
#ifndef LM_CLI_HELP_H
#define LM_CLI_HELP_H

#include "cli/command.h"

/* The help of a command on standard output, with --json the document of it. NULL: of all commands. */
lm_status lm_help_show(lm_cli *cli, const lm_command *c, lm_error *e);

#endif
