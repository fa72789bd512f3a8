/* numeral.h - numbers as people write them: 1.24B, 1,235,814,400, 32k, 2^20, 3.2 × 10^9, 128 KiB, 16 GB, 15.6
 * %. All code that reads them uses this function; the text around a number is left to its callers. */
#ifndef LM_BASE_NUMERAL_H
#define LM_BASE_NUMERAL_H

#include <stdbool.h>
#include <stddef.h>

typedef enum lm_numeral_unit {
    LM_NUMERAL_PLAIN, LM_NUMERAL_BYTES, LM_NUMERAL_PERCENT, LM_NUMERAL_TIMES, LM_NUMERAL_OPERATIONS
} lm_numeral_unit;

typedef struct lm_numeral {
    double value, binary;            /* binary: the value if M means 2^20; for MiB both are that */
    double half;                     /* half of the last digit written; 0: written in full */
    int    power;                    /* of a thousand: 2 for M */
    int    zeros;                    /* trailing zeros of a whole number: 2 in 200k */
    bool   whole;                    /* no point, no prefix, no exponent */
    bool   kibi;                     /* Ki, Mi, Gi: binary only */
    lm_numeral_unit unit;
} lm_numeral;

/* Read the number at the start of `s`, a C string, and its unit. Returns the bytes read, 0 if there is no
 * number. `bytes`: a size is expected, so B after a number is not a billion. `tail`, if not NULL: the bytes
 * up to the unit. */
size_t lm_read_numeral(const char *s, bool bytes, lm_numeral *out, size_t *tail);

/* Return the size of a multiplication sign and the spaces around it; 0: none. */
size_t lm_times_sign(const char *s);

#endif
