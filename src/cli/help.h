/* help.h - descriptions of the commands as text or JSON. */
#ifndef LM_CLI_HELP_H
#define LM_CLI_HELP_H

#include "cli/base/command.h"

/* Print the help of a command on standard output, with --json as a document. NULL: of all commands. */
lm_status lm_help_show(lm_cli *cli, const lm_command *c, lm_error *e);

#endif
