/* claim.h - what a text says of a quantity: a number, and whether it is meant as a bound or roughly. */
#ifndef LM_ANALYSIS_CLAIM_H
#define LM_ANALYSIS_CLAIM_H

#include "base/numeral.h"

typedef struct lm_claimed {
    lm_numeral is;
    bool       about;                /* "about", "~" */
    int        bound;                /* -1: at most, 1: at least, 0: this */
    bool       other;                /* a range, a product, words that a number alone does not express */
} lm_claimed;

/* `bytes`: what is claimed is a size. False: there is no number. */
bool lm_read_claim(const char *text, bool bytes, lm_claimed *out);

#endif
