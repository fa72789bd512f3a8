/* compare.h - how far apart two rows of numbers are. All arithmetic is double; a NaN on either side is never
 * equal. */
#ifndef LM_RUNTIME_COMPARE_H
#define LM_RUNTIME_COMPARE_H

#include <stddef.h>

/* Return max|ours - ref| / max|ref|: 0 for equal rows (infinities at the same places included), infinity if
 * they cannot be compared. */
double lm_relative_error(const float *ours, const float *ref, size_t n);

/* Return the Kullback-Leibler divergence of softmax(ours) from softmax(ref), in nats; >= 0. */
double lm_kl(const float *ours, const float *ref, size_t n);

/* Return the index of the largest value, the first among equals. */
size_t lm_argmax(const float *x, size_t n);

/* Return the largest |x| of the finite values; 0 if there are none. */
double lm_magnitude(const float *x, size_t n);

#endif
