/* complete.h - what a word of a command line may become: `lamina __complete WORD...`, which the shells' completions ask. */
#ifndef LM_CLI_COMPLETE_H
#define LM_CLI_COMPLETE_H

#include "cli/command.h"

/* Print what the last of `words` may be, given those before it, a line each: values of flags, models of both caches, presets, topics,
 * devices, commands. Flags themselves and files are known to the shells. Nothing where nothing is known. */
lm_status lm_complete(const lm_command *const *commands, char **words, size_t n, lm_error *e);

#endif
