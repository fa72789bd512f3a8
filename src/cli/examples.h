/* examples.h - command lines that the help and the manual pages of a command begin with: examples.txt. */
#ifndef LM_CLI_EXAMPLES_H
#define LM_CLI_EXAMPLES_H

#include <stddef.h>

/* All lines, in the order of the file. */
extern const char lm_example_lines[];

/* Return the first example of `command` after the example `last` (NULL: from the start) and its size; NULL:
 * no more. */
const char *lm_example_of(const char *command, const char *last, size_t *size);

#endif
