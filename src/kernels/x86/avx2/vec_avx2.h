/* vec_avx2.h - eight floats at a time: tails, fixed sums, and the elementary functions.
 *
 * The polynomials are minimax fits made for this file; errors are measured against the exact function in
 * double precision. */
#ifndef LM_KERNELS_VEC_AVX2_H
#define LM_KERNELS_VEC_AVX2_H

#include <stdint.h>

#include "kernels/x86/vec_256.h"

/* Return a mask of the first n (0..8) lanes. */
static inline __m256i vec_mask(uint64_t n)
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}

/* Load the last n < 8 floats of a row; the other lanes are zero, and their memory is not accessed. */
static inline __m256 vec_load_tail(const float *p, uint64_t n)
{
    return _mm256_maskload_ps(p, vec_mask(n));
}

static inline void vec_store_tail(float *p, uint64_t n, __m256 v)
{
    _mm256_maskstore_ps(p, vec_mask(n), v);
}

/* Sum the eight lanes as a tree, always in the same order. */
static inline float vec_sum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

static inline float vec_max(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

static inline __m256 vec_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline __m256 vec_abs(__m256 x)
{
    return _mm256_andnot_ps(vec_set(-0.0f), x);
}

/* maxps and minps return the second operand if either is NaN: with x second, NaN is propagated. */
static inline __m256 vec_within(__m256 x, float low, float high)
{
    return _mm256_min_ps(vec_set(high), _mm256_max_ps(vec_set(low), x));
}

/* e^x: relative error below 2e-7, infinity beyond the range of float32. Zero below -87.33, because a denormal
 * result takes two hundred cycles on Intel cores, and masked keys would give one. The power of two is applied
 * in two halves, because 2^128 is not a float. */
static inline __m256 vec_exp(__m256 x)
{
    __m256 in = vec_within(x, -87.33f, 89.0f);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(in, vec_set(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, vec_set(6.93145752e-1f), in);
    r = _mm256_fnmadd_ps(n, vec_set(1.42860677e-6f), r);

    __m256 p = vec_set(1.395048622e-3f);
    p = _mm256_fmadd_ps(p, r, vec_set(8.368887863e-3f));
    p = _mm256_fmadd_ps(p, r, vec_set(4.166620587e-2f));
    p = _mm256_fmadd_ps(p, r, vec_set(1.666651885e-1f));
    p = _mm256_fmadd_ps(p, r, vec_set(5.000000095e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
    p = _mm256_add_ps(p, vec_set(1.0f));

    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 b = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23));
    __m256 seen = _mm256_cmp_ps(x, vec_set(-87.33f), _CMP_NLT_UQ);
    /* for a NaN, p is NaN, and a and b are irrelevant */
    return _mm256_and_ps(_mm256_mul_ps(_mm256_mul_ps(p, a), b), seen);
}

static inline __m256 vec_sigmoid(__m256 x)
{
    __m256 e = vec_exp(_mm256_sub_ps(_mm256_setzero_ps(), x));
    return _mm256_div_ps(vec_set(1.0f), _mm256_add_ps(vec_set(1.0f), e));
}

/* tanh x: an odd polynomial near 0, 1 - 2/(e^2x + 1) elsewhere. Absolute error below 2e-7. */
static inline __m256 vec_tanh(__m256 x)
{
    __m256 s = _mm256_mul_ps(x, x), p = vec_set(-5.717036560e-3f);
    p = _mm256_fmadd_ps(p, s, vec_set(2.065057900e-2f));
    p = _mm256_fmadd_ps(p, s, vec_set(-5.374349526e-2f));
    p = _mm256_fmadd_ps(p, s, vec_set(1.333149125e-1f));
    p = _mm256_fmadd_ps(p, s, vec_set(-3.333328392e-1f));
    __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(x, s), p, x);

    __m256 e = vec_exp(_mm256_add_ps(vec_abs(x), vec_abs(x)));
    __m256 far = _mm256_sub_ps(vec_set(1.0f), _mm256_div_ps(vec_set(2.0f), _mm256_add_ps(e, vec_set(1.0f))));
    far = _mm256_or_ps(far, _mm256_and_ps(x, vec_set(-0.0f)));
    return _mm256_blendv_ps(far, near, _mm256_cmp_ps(vec_abs(x), vec_set(0.625f), _CMP_LT_OQ));
}

/* erf x: x (1 + P(x^2)) near 0, 1 - e^(-x Q(x)) elsewhere. Absolute error below 2e-7. */
static inline __m256 vec_erf(__m256 x)
{
    __m256 s = _mm256_mul_ps(x, x), p = vec_set(8.345224871e-5f);
    p = _mm256_fmadd_ps(p, s, vec_set(-8.137437558e-4f));
    p = _mm256_fmadd_ps(p, s, vec_set(5.200634305e-3f));
    p = _mm256_fmadd_ps(p, s, vec_set(-2.685927078e-2f));
    p = _mm256_fmadd_ps(p, s, vec_set(1.128369394e-1f));
    p = _mm256_fmadd_ps(p, s, vec_set(-3.761263370e-1f));
    p = _mm256_fmadd_ps(p, s, vec_set(1.283791666e-1f));
    __m256 near = _mm256_fmadd_ps(x, p, x);

    __m256 t = _mm256_min_ps(vec_set(4.0f), vec_abs(x)), q = vec_set(1.188546115e-5f);
    q = _mm256_fmadd_ps(q, t, vec_set(-3.293093092e-4f));
    q = _mm256_fmadd_ps(q, t, vec_set(3.668724765e-3f));
    q = _mm256_fmadd_ps(q, t, vec_set(-2.381719599e-2f));
    q = _mm256_fmadd_ps(q, t, vec_set(1.063003721e-1f));
    q = _mm256_fmadd_ps(q, t, vec_set(6.351132464e-1f));
    q = _mm256_fmadd_ps(q, t, vec_set(1.128657783f));
    __m256 far = _mm256_sub_ps(vec_set(1.0f),
                               vec_exp(_mm256_sub_ps(_mm256_setzero_ps(), _mm256_mul_ps(t, q))));
    far = _mm256_or_ps(far, _mm256_and_ps(x, vec_set(-0.0f)));
    return _mm256_blendv_ps(far, near, _mm256_cmp_ps(vec_abs(x), vec_set(0.93f), _CMP_LT_OQ));
}

#endif
