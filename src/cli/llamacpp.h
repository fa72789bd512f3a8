/* llamacpp.h - flags of llama.cpp that lamina does not have: those that are accepted without effect, and those that are rejected. */
#ifndef LM_CLI_LLAMACPP_H
#define LM_CLI_LLAMACPP_H

#include "cli/command.h"

/* The table ends with a row without names. A command's own flags take precedence. docs/guide/coming-from.md shows the same rows. */
extern const lm_foreign_flag lm_llamacpp_flags[];

/* Return the row of `name`, or NULL. */
const lm_foreign_flag *lm_foreign_find(const lm_foreign_flag *table, const char *name);

#endif
