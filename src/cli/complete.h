/* complete.h - completion of a word of the command line: `lamina __complete WORD...`, which the shells'
 * completion scripts call. */
#ifndef LM_CLI_COMPLETE_H
#define LM_CLI_COMPLETE_H

#include "cli/base/command.h"

/* Print the candidates for the last of `words`, given those before it, one per line: values of flags, models
 * of both caches, presets, topics, devices, commands. The shells complete flags and file names themselves.
 * Prints nothing if there is no candidate. */
lm_status lm_complete(const lm_command *const *commands, char **words, size_t n, lm_error *e);

#endif
