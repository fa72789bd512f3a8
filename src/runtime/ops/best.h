/* best.h - the indices of the largest numbers of a row. */
#ifndef LM_RUNTIME_BEST_H
#define LM_RUNTIME_BEST_H

#include <stdint.h>

/* Write the indices of the k largest of n numbers, k <= n < 2^24, in rising order, to out [k]. Of equal
 * numbers, those with the lowest indices. A NaN with a clear sign is above all numbers. */
void lm_best(const float *x, uint32_t n, uint32_t k, float *out);

#endif
