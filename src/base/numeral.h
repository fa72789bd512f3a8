/* numeral.h - numbers as people write them: 1.24B, 1,235,814,400, 32k, 2^20, 3.2 × 10^9, 128 KiB, 16 GB, 15.6 %. The one reader of
 * them; the text around a number is for its callers. */
#ifndef LM_BASE_NUMERAL_H
#define LM_BASE_NUMERAL_H

#include <stdbool.h>
#include <stddef.h>

typedef enum lm_numeral_unit {
    LM_NUMERAL_PLAIN, LM_NUMERAL_BYTES, LM_NUMERAL_PERCENT, LM_NUMERAL_TIMES, LM_NUMERAL_OPERATIONS
} lm_numeral_unit;

typedef struct lm_numeral {
    double value, binary;            /* binary: what it is if M is 2^20; of MiB both are */
    double half;                     /* half of the last digit written; 0: written out */
    int    power;                    /* of a thousand: 2 for M */
    int    zeros;                    /* digits 0 at the end of a whole number: 2 of 200k */
    bool   whole;                    /* no point, no prefix, no exponent */
    bool   kibi;                     /* Ki, Mi, Gi: binary and nothing else */
    lm_numeral_unit unit;
} lm_numeral;

/* The number at the front of `s`, which ends in NUL, and its unit: the bytes read, 0 where there is none. `bytes`: a size is expected, so B
 * behind a number is no billion. `tail`, if not NULL: the bytes up to the unit. */
size_t lm_read_numeral(const char *s, bool bytes, lm_numeral *out, size_t *tail);

/* The bytes of a multiplication sign and the spaces around it; 0: none. */
size_t lm_times_sign(const char *s);

#endif
