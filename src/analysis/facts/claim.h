/* claim.h - a number as people write it. */
#ifndef LM_ANALYSIS_CLAIM_H
#define LM_ANALYSIS_CLAIM_H

#include <stdbool.h>

/* What kind of thing the text says it counts. */
typedef enum lm_claim_unit { LM_CLAIM_PLAIN, LM_CLAIM_BYTES, LM_CLAIM_PERCENT, LM_CLAIM_TIMES, LM_CLAIM_OPERATIONS } lm_claim_unit;

/* "394M": 394 million, known to half a million. */
typedef struct lm_claimed {
    double value, binary;            /* binary: what it is if M is 2^20 */
    double half;                     /* half of the last digit written; 0: written out */
    int    power;                    /* of a thousand: 2 for M */
    bool   whole;                    /* no point, no prefix, no exponent */
    bool   about;                    /* "about", "~" */
    int    bound;                    /* -1: at most, 1: at least, 0: this */
    bool   other;                    /* a range, a product, words that a number alone does not tell */
    lm_claim_unit unit;
} lm_claimed;

/* `bytes`: what is claimed is a size, B after a number is no billion. False: there is no number. */
bool lm_read_claim(const char *text, bool bytes, lm_claimed *out);

#endif
