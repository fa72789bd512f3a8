/* fit.h - search for the scales with the smallest error, used to pack the K and IQ4 types.
 *
 * The error is the plain sum of squares. A candidate scale determines the integers; given the integers, the
 * best scale is a least squares solution. The search takes the best of a fan of candidates around the scale
 * that just reaches the extreme element. */
#ifndef LM_TENSOR_FIT_H
#define LM_TENSOR_FIT_H

#include <stdint.h>

/* Return d for x[i] ~ d * q[i], q in [lo, hi], lo < 0 < hi. It may be negative; 0 if all x are 0. */
float lm_fit_scale(const float *x, int n, int lo, int hi);

/* Compute d and m >= 0 for x[i] ~ d * q[i] - m, q in [0, top]. */
void lm_fit_scale_min(const float *x, int n, int top, float *d, float *m);

/* Return d for x[i] ~ d * table[q[i]]; `table` is ascending. */
float lm_fit_table(const float *x, int n, const int8_t table[16]);

/* Return the index of the value nearest to x (the lower of two equally near); 0 for NaN. */
int lm_nearest_in_table(const int8_t table[16], float x);

/* Return the sum of (x[i] - d * q[i])^2 with the best q for this d. */
float lm_error_scale(const float *x, int n, int lo, int hi, float d);
float lm_error_scale_min(const float *x, int n, int top, float d, float m);
float lm_error_table(const float *x, int n, const int8_t table[16], float d);

/* Return 1/d, or 0 for 0. */
float lm_inverse(float d);

#endif
