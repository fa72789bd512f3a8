/* dress.h - what the library says, in the words of the program. */
#ifndef LM_CLI_DRESS_H
#define LM_CLI_DRESS_H

#include "cli/command.h"

/* The commands whose names and flags are the program's words; NULL-ended, as long as the process. Until then there are none. */
void lm_dress_for(const lm_command *const *all);

/* The library names its options, and what it does, in back quotes: "`no_repack` runs from the file", "`presets` lists them". What is a
 * flag or a command here becomes it ("--no-repack runs from the file"); the rest of the text stays. At most `size` bytes, with a NUL;
 * returns `out`, which may not be `text`. */
char *lm_dress(const char *text, char *out, size_t size);

#endif
