/* flag_names.h - replace the names of library options in messages by flags of the program. */
#ifndef LM_CLI_FLAG_NAMES_H
#define LM_CLI_FLAG_NAMES_H

#include "cli/base/command.h"

/* Set the commands whose names and flags are used: NULL-ended, valid as long as the process runs. Before this
 * call there are none. */
void lm_name_flags_of(const lm_command *const *all);

/* Replace names in a message of the library, which puts options and operations in back quotes: "`no_repack`
 * runs from the file", "`presets` lists them". A name that is a flag or a command is replaced by it
 * ("--no-repack runs from the file"); other text is unchanged. Writes at most `size` bytes including the NUL.
 * Returns `out`, which must not be `text`. */
char *lm_name_flags(const char *text, char *out, size_t size);

#endif
