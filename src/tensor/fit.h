/* fit.h - scales that lose least: the search behind the packs of the K and IQ4 types.
 *
 * The error is the plain sum of squares. A candidate scale fixes the integers; given the integers the best scale is a least
 * squares solution; the best of a fan of candidates around the one that just reaches the extreme element wins. */
#ifndef LM_TENSOR_FIT_H
#define LM_TENSOR_FIT_H

#include <stdint.h>

/* The d for x[i] ~ d * q[i], q in [lo, hi], lo < 0 < hi. May be negative; 0 when x is. Writes no q. */
float lm_fit_scale(const float *x, int n, int lo, int hi);

/* d and m >= 0 for x[i] ~ d * q[i] - m, q in [0, top]. */
void lm_fit_scale_min(const float *x, int n, int top, float *d, float *m);

/* The d for x[i] ~ d * table[q[i]]; `table` rises. */
float lm_fit_table(const float *x, int n, const int8_t table[16]);

/* The index whose value is nearest to x (the lower of two equally near). NaN gives 0. */
int lm_nearest_in_table(const int8_t table[16], float x);

/* sum of (x[i] - d * q[i])^2 with the best q for this d. */
float lm_error_scale(const float *x, int n, int lo, int hi, float d);
float lm_error_scale_min(const float *x, int n, int top, float d, float m);
float lm_error_table(const float *x, int n, const int8_t table[16], float d);

/* 1/d, or 0 for 0. */
float lm_inverse(float d);

#endif
