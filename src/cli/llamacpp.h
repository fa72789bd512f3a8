/* llamacpp.h - flags of llama.cpp that are none here: which can be left out of an answer, and which cannot. */
#ifndef LM_CLI_LLAMACPP_H
#define LM_CLI_LLAMACPP_H

#include "cli/command.h"

/* Ended by a row without names. Flags that a command has itself are found before these. docs/guide/coming-from.md shows the same rows. */
extern const lm_foreign_flag lm_llamacpp_flags[];

/* The row of `name`; NULL: none. */
const lm_foreign_flag *lm_foreign_find(const lm_foreign_flag *table, const char *name);

#endif
