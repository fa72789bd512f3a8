/* compare.h - how far two rows of numbers are apart. All arithmetic is double; a NaN on either side is never equal. */
#ifndef LM_RUNTIME_COMPARE_H
#define LM_RUNTIME_COMPARE_H

#include <stddef.h>

/* max|ours - ref| / max|ref|. 0 for equal rows (infinities at the same places included), infinity where they cannot be
 * compared. */
double lm_relative_error(const float *ours, const float *ref, size_t n);

/* Kullback-Leibler divergence of softmax(ours) from softmax(ref), in nats; >= 0. */
double lm_kl(const float *ours, const float *ref, size_t n);

/* The first of the largest. */
size_t lm_argmax(const float *x, size_t n);

/* The largest |x|. */
double lm_magnitude(const float *x, size_t n);

#endif
