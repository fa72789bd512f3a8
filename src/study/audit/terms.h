/* terms.h - a formula in TeX or plain text as a list of terms: names, numbers and signs.
 *
 * Signs of multiplication, fonts, sizes of parentheses and spaces are left out. A fraction becomes a division. */
#ifndef LM_ANALYSIS_AUDIT_TERMS_H
#define LM_ANALYSIS_AUDIT_TERMS_H

#include "study/audit/reading.h"

enum { LM_LONGEST_TERM = 24, LM_MOST_FORMULA = 96 };

typedef struct lm_term {
    char      name[LM_LONGEST_TERM]; /* in lower case with its labels, without its indices: "w_down", "x", "softmax", "2", "(", "^T" */
    lm_extent at;                    /* the name with its labels and indices, as written */
    char      letter;                /* the letter that a name of one letter is, as written; '\0': another term */
    bool      word, number;          /* word: a name */
} lm_term;

typedef struct lm_formula { lm_term terms[LM_MOST_FORMULA]; size_t n; } lm_formula;

/* Read `text`. `tex`: letters side by side are factors; else they form a name. False: too long, or not readable. */
bool lm_read_formula(lm_extent text, bool tex, lm_formula *out);

bool lm_term_is(const lm_term *x, const char *name);

#endif
