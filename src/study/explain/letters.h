/* letters.h - the letters of the formulas of topics. A letter has one meaning, in all topics and in a
 * report. */
#ifndef LM_ANALYSIS_LETTERS_H
#define LM_ANALYSIS_LETTERS_H

#include "study/explain/cards.h"

typedef struct lm_letter { const char *unicode, *latex, *meaning; } lm_letter;

enum { LM_MAX_LETTERS = 32 };

/* Find the letters of formulas that are not in the table of the derivation (NULL: none), in the order of the
 * list of letters. Returns their number. */
size_t lm_find_letters(const lm_card_formula formulas[LM_CARD_LINES], const lm_derivation *d,
                       const lm_letter *out[LM_MAX_LETTERS]);

/* Return the letter with this LaTeX; NULL: it is not in the list. */
const lm_letter *lm_letter_of(const char *latex);

#endif
