/* vec_avx512.h - sixteen floats at a time: tails, fixed sums, and the elementary functions of vec_avx2.h. */
#ifndef LM_KERNELS_VEC_AVX512_H
#define LM_KERNELS_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

/* Return a mask of the first n lanes, at most sixteen. */
static inline __mmask16 vec512_lanes(uint64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

/* Sum the sixteen lanes as a tree, always in the same order. */
static inline float vec512_sum(__m512 v)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

static inline float vec512_max(__m512 v)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* e^x of n vectors, at most four: relative error below 2e-7, infinity beyond the range of float32. Zero below
 * -87.33, because a denormal result takes two hundred cycles on Intel cores, and masked keys would give one.
 * Each step is done for all vectors, because it depends on the previous step. */
static inline __attribute__((always_inline)) void vec512_exps(__m512 *x, const int n)
{
    static const float c[] = { 8.368887863e-3f, 4.166620587e-2f, 1.666651885e-1f, 5.000000095e-1f };
    __m512 k[4], r[4], p[4];

#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        r[i] = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-87.33f), x[i]));
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        k[i] = _mm512_roundscale_ps(_mm512_mul_ps(r[i], _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        r[i] = _mm512_fnmadd_ps(k[i], _mm512_set1_ps(6.93145752e-1f), r[i]);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        r[i] = _mm512_fnmadd_ps(k[i], _mm512_set1_ps(1.42860677e-6f), r[i]);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        p[i] = _mm512_set1_ps(1.395048622e-3f);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(c[j]));
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        p[i] = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r[i], r[i]), p[i], r[i]), _mm512_set1_ps(1.0f));
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        x[i] = _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x[i], _mm512_set1_ps(-87.33f), _CMP_NLT_UQ), p[i],
                                      k[i]); /* NaN stays */
}

static inline __m512 vec512_exp(__m512 x)
{
    vec512_exps(&x, 1);
    return x;
}

/* e^x for x <= 0, to be rounded to bfloat16: relative error below 4e-6 for results down to 2^-126, zero below
 * that. */
static inline __m512 vec512_exp_short(__m512 x)
{
    __m512 powers = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
           t = _mm512_max_ps(_mm512_set1_ps(-126.0f), powers);
    /* the fractional part */
    __m512 r = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);

    __m512 p = _mm512_set1_ps(1.353416778e-2f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.201146379e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.414427549e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.930038333e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.000002623f));

    /* for a NaN, p is NaN */
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(powers, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ), p, t);
}

/* tanh x: an odd polynomial near 0, 1 - 2/(e^2x + 1) elsewhere. Absolute error below 2e-7. */
static inline __m512 vec512_tanh(__m512 x)
{
    __m512 s = _mm512_mul_ps(x, x), p = _mm512_set1_ps(-5.717036560e-3f);
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(2.065057900e-2f));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(-5.374349526e-2f));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(1.333149125e-1f));
    p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(-3.333328392e-1f));
    __m512 near = _mm512_fmadd_ps(_mm512_mul_ps(x, s), p, x);

    __m512 e = vec512_exp(_mm512_add_ps(_mm512_abs_ps(x), _mm512_abs_ps(x)));
    __m512 far = _mm512_sub_ps(_mm512_set1_ps(1.0f),
                               _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, _mm512_set1_ps(1.0f))));
    far = _mm512_or_ps(far, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0.625f), _CMP_LT_OQ), far,
                                near);
}

#endif
