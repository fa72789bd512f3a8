/* foreign.h - flags of other programs that lamina does not have: those that are accepted without effect, and
 * those that are rejected. */
#ifndef LM_CLI_FOREIGN_H
#define LM_CLI_FOREIGN_H

#include "cli/base/command.h"

/* The table of flags ends with a row without names. A command's own flags take precedence. */
typedef struct lm_foreign_program { const char *name; const lm_foreign_flag *flags; } lm_foreign_program;

/* Ends with a program without name. docs/guide/coming-from.md shows the same rows. */
extern const lm_foreign_program lm_foreign_programs[];

/* Return the row of a flag, or NULL. *program, unless NULL: the name of the program it is known from. */
const lm_foreign_flag *lm_foreign_find(const char *name, const char **program);

#endif
