/* claim.h - what a text states about a quantity: a number, and whether it is a bound or approximate. */
#ifndef LM_ANALYSIS_CLAIM_H
#define LM_ANALYSIS_CLAIM_H

#include "base/numeral.h"

typedef struct lm_claimed {
    lm_numeral is;
    bool       about;                /* "about", "~" */
    int        bound;                /* -1: at most, 1: at least, 0: exact */
    bool       other;                /* a range, a product, or words that a number alone does not express */
} lm_claimed;

/* Parse a claim. `bytes`: the quantity is a size. False: the text contains no number. */
bool lm_read_claim(const char *text, bool bytes, lm_claimed *out);

#endif
