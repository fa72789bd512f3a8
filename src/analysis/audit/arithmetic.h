/* arithmetic.h - sums and products as people write them: 2 × 28 layers × 8 heads × 128 dim, 4 * 4096², 250M + 7.25B. */
#ifndef LM_ANALYSIS_AUDIT_ARITHMETIC_H
#define LM_ANALYSIS_AUDIT_ARITHMETIC_H

#include "analysis/audit/reading.h"

typedef struct lm_amount {
    double value, binary;            /* binary: with K, M, G of bytes as powers of 1,024 */
    double half;                     /* of the last digit, where it is one number with a prefix or decimals; 0: exact */
    double terms[LM_MOST_TERMS];     /* of the outermost sum */
    lm_extent spans[LM_MOST_TERMS];
    double halves[LM_MOST_TERMS];
    size_t n_terms;
    int    power;                    /* of a thousand, of one number */
    bool   calculated;               /* there is an operator */
    bool   bytes;                    /* a unit of bytes */
    bool   cut;                      /* prose follows behind a comma */
    bool   worded;                   /* words behind a number */
    lm_extent number;                  /* the first number */
} lm_amount;

/* Whether all of s is an amount. Numbers that `d` has found to stand for others count as those within sums and products. */
bool lm_read_amount(const lm_reading *d, lm_extent s, lm_amount *out);

#endif
