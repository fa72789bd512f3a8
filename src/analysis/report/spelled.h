/* spelled.h - formulas of facts ("softmax(Q K^T / sqrt(head_dim)) V") as mathematics: with its signs, and in LaTeX. */
#ifndef LM_ANALYSIS_SPELLED_H
#define LM_ANALYSIS_SPELLED_H

#include "base/str.h"

/* Appended. Anything is set; what is not a formula reads as it stood. */
void lm_spell_formula(const char *plain, lm_text *unicode, lm_text *latex);

#endif
