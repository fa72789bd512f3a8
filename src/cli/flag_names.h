/* flag_names.h - names of library options in messages become flags of the program. */
#ifndef LM_CLI_FLAG_NAMES_H
#define LM_CLI_FLAG_NAMES_H

#include "cli/command.h"

/* The commands whose names and flags are used; NULL-ended, as long as the process. Until then there are none. */
void lm_name_flags_of(const lm_command *const *all);

/* The library names its options, and what it does, in back quotes: "`no_repack` runs from the file", "`presets` lists them". What is a
 * flag or a command here becomes it ("--no-repack runs from the file"); the rest of the text stays. At most `size` bytes, with a NUL;
 * returns `out`, which may not be `text`. */
char *lm_name_flags(const char *text, char *out, size_t size);

#endif
