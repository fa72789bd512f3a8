/* spelled.h - formulas of facts ("softmax(Q K^T / sqrt(head_dim)) V") as mathematics: with Unicode symbols,
 * and in LaTeX. */
#ifndef LM_ANALYSIS_SPELLED_H
#define LM_ANALYSIS_SPELLED_H

#include "base/str.h"

/* Append both forms. Every input is accepted; text that is not a formula is unchanged. */
void lm_spell_formula(const char *plain, lm_text *unicode, lm_text *latex);

#endif
