/* pairs_128.h - the vectors of 256 bits of the AVX2 kernels as pairs of 128 bits, for processors without
 * AVX2: the same names, each intrinsic done on both halves with SSSE3 and SSE4.1. Only what those kernels use
 * is here. Where SSE4.1 has no such instruction:
 *
 *   multiply-add   rounds twice
 *   float16        is converted in integer arithmetic, to the same bits
 *   lanes          that cross halves or depend on a mask go through memory */
#ifndef LM_KERNELS_PAIRS_128_H
#define LM_KERNELS_PAIRS_128_H

#include <smmintrin.h>
#include <stdint.h>
#include <string.h>

#include "tensor/dtype.h"

typedef struct { __m128i lo, hi; } __m256i;
typedef struct { __m128 lo, hi; } __m256;

#define PAIR static inline __attribute__((always_inline))

/* ---- the same on both halves --------------------------------------------------------------------------- */

#define ONE(to, from, name, half)                                        \
    PAIR to _mm256_##name(from a)                                        \
    {                                                                    \
        return (to){ _mm_##half(a.lo), _mm_##half(a.hi) };               \
    }
#define TWO(type, name, half)                                            \
    PAIR type _mm256_##name(type a, type b)                              \
    {                                                                    \
        return (type){ _mm_##half(a.lo, b.lo), _mm_##half(a.hi, b.hi) }; \
    }
#define SHIFT(name, count)                                               \
    PAIR __m256i _mm256_##name(__m256i a, count n)                       \
    {                                                                    \
        return (__m256i){ _mm_##name(a.lo, n), _mm_##name(a.hi, n) };    \
    }
#define SET(type, name, value, half)                                     \
    PAIR type _mm256_##name(value x)                                     \
    {                                                                    \
        return (type){ half(x), half(x) };                               \
    }
#define CHOOSE(type, name)                                               \
    PAIR type _mm256_##name(type a, type b, type m)                      \
    {                                                                    \
        return (type){ _mm_##name(a.lo, b.lo, m.lo), _mm_##name(a.hi, b.hi, m.hi) }; \
    }

TWO(__m256i, add_epi8, add_epi8)                TWO(__m256i, add_epi32, add_epi32)
TWO(__m256i, add_epi64, add_epi64)              TWO(__m256i, sub_epi8, sub_epi8)
TWO(__m256i, sub_epi32, sub_epi32)              TWO(__m256i, mullo_epi16, mullo_epi16)
TWO(__m256i, and_si256, and_si128)              TWO(__m256i, andnot_si256, andnot_si128)
TWO(__m256i, or_si256, or_si128)                TWO(__m256i, xor_si256, xor_si128)
TWO(__m256i, max_epi32, max_epi32)              TWO(__m256i, cmpeq_epi8, cmpeq_epi8)
TWO(__m256i, cmpeq_epi32, cmpeq_epi32)          TWO(__m256i, cmpgt_epi32, cmpgt_epi32)
TWO(__m256i, shuffle_epi8, shuffle_epi8)        TWO(__m256i, sign_epi8, sign_epi8)
TWO(__m256i, maddubs_epi16, maddubs_epi16)      TWO(__m256i, madd_epi16, madd_epi16)
TWO(__m256i, packs_epi16, packs_epi16)          TWO(__m256i, packs_epi32, packs_epi32)
TWO(__m256i, packus_epi16, packus_epi16)        TWO(__m256i, unpacklo_epi16, unpacklo_epi16)
TWO(__m256i, unpacklo_epi32, unpacklo_epi32)    TWO(__m256i, unpacklo_epi64, unpacklo_epi64)
TWO(__m256i, unpackhi_epi16, unpackhi_epi16)    TWO(__m256i, unpackhi_epi32, unpackhi_epi32)
TWO(__m256i, unpackhi_epi64, unpackhi_epi64)    TWO(__m256, add_ps, add_ps)
TWO(__m256, sub_ps, sub_ps)                     TWO(__m256, mul_ps, mul_ps)
TWO(__m256, div_ps, div_ps)                     TWO(__m256, min_ps, min_ps)
TWO(__m256, max_ps, max_ps)                     TWO(__m256, and_ps, and_ps)
TWO(__m256, andnot_ps, andnot_ps)               TWO(__m256, or_ps, or_ps)
TWO(__m256, addsub_ps, addsub_ps)               TWO(__m256, unpacklo_ps, unpacklo_ps)
TWO(__m256, unpackhi_ps, unpackhi_ps)           TWO(__m256, cmp_CMP_NLT_UQ, cmpnlt_ps)
TWO(__m256, cmp_CMP_LT_OQ, cmplt_ps)            TWO(__m256, cmp_CMP_ORD_Q, cmpord_ps)
ONE(__m256i, __m256i, abs_epi8, abs_epi8)    ONE(__m256i, __m256i, abs_epi32, abs_epi32)
ONE(__m256, __m256i, cvtepi32_ps, cvtepi32_ps)    ONE(__m256i, __m256, cvtps_epi32, cvtps_epi32)
ONE(__m256, __m256i, castsi256_ps, castsi128_ps)  ONE(__m256i, __m256, castps_si256, castps_si128)
SHIFT(slli_epi16, int) SHIFT(slli_epi32, int) SHIFT(srli_epi16, int)
SHIFT(srli_epi32, int) SHIFT(srai_epi32, int)
SHIFT(srl_epi16, __m128i)
SET(__m256i, set1_epi8, char, _mm_set1_epi8)  SET(__m256i, set1_epi16, short, _mm_set1_epi16)
SET(__m256i, set1_epi32, int, _mm_set1_epi32) SET(__m256i, set1_epi64x, long long, _mm_set1_epi64x)
SET(__m256, set1_ps, float, _mm_set1_ps)      SET(__m256, broadcast_ss, const float *, _mm_load1_ps)
SET(__m256i, broadcastsi128_si256, __m128i, )
CHOOSE(__m256i, blendv_epi8)
CHOOSE(__m256, blendv_ps)

#undef ONE
#undef TWO
#undef SHIFT
#undef SET
#undef CHOOSE

/* Instructions with a constant that is part of their code. */
#define _mm256_cmp_ps(a, b, how)       _mm256_cmp##how(a, b)
#define _mm256_round_ps(a, how)        ((__m256){ _mm_round_ps((a).lo, how), _mm_round_ps((a).hi, how) })
#define _mm256_shuffle_epi32(a, how) \
    ((__m256i){ _mm_shuffle_epi32((a).lo, how), _mm_shuffle_epi32((a).hi, how) })
#define _mm_blend_epi32(a, b, how) \
    _mm_castps_si128(_mm_blend_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), how))
#define _mm256_blend_epi32(a, b, how)  \
    ((__m256i){ _mm_blend_epi32((a).lo, (b).lo, (how) & 15), _mm_blend_epi32((a).hi, (b).hi, (how) >> 4) })
#define _mm256_shuffle_ps(a, b, how) \
    ((__m256){ _mm_shuffle_ps((a).lo, (b).lo, how), _mm_shuffle_ps((a).hi, (b).hi, how) })
#define _mm256_permute_ps(a, how)      _mm256_shuffle_ps(a, a, how)

PAIR __m256 _mm256_setzero_ps(void)
{
    return _mm256_set1_ps(0.0f);
}

PAIR __m256i _mm256_setzero_si256(void)
{
    return _mm256_set1_epi32(0);
}

/* ---- multiply and add ---------------------------------------------------------------------------------- */

PAIR __m256 _mm256_fmadd_ps(__m256 a, __m256 b, __m256 c)
{
    return _mm256_add_ps(_mm256_mul_ps(a, b), c);
}

PAIR __m256 _mm256_fmsub_ps(__m256 a, __m256 b, __m256 c)
{
    return _mm256_sub_ps(_mm256_mul_ps(a, b), c);
}

PAIR __m256 _mm256_fnmadd_ps(__m256 a, __m256 b, __m256 c)
{
    return _mm256_sub_ps(c, _mm256_mul_ps(a, b));
}

PAIR __m256 _mm256_fmaddsub_ps(__m256 a, __m256 b, __m256 c)
{
    return _mm256_addsub_ps(_mm256_mul_ps(a, b), c);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

PAIR __m256 _mm256_loadu_ps(const float *p)
{
    return (__m256){ _mm_loadu_ps(p), _mm_loadu_ps(p + 4) };
}

PAIR void _mm256_storeu_ps(float *p, __m256 a)
{
    _mm_storeu_ps(p, a.lo);
    _mm_storeu_ps(p + 4, a.hi);
}

PAIR __m256i _mm256_loadu_si256(const void *p)
{
    return (__m256i){ _mm_loadu_si128(p), _mm_loadu_si128((const __m128i *)p + 1) };
}

PAIR void _mm256_storeu_si256(void *p, __m256i a)
{
    _mm_storeu_si128(p, a.lo);
    _mm_storeu_si128((__m128i *)p + 1, a.hi);
}

/* Masks are those of a number of lanes, the first ones. */
PAIR __m256 _mm256_maskload_ps(const float *p, __m256i mask)
{
    int32_t lanes[8];
    float   x[8] = { 0 };

    _mm256_storeu_si256(lanes, mask);
    for (int i = 0; i < 8 && lanes[i]; i++)
        x[i] = p[i];
    return _mm256_loadu_ps(x);
}

PAIR void _mm256_maskstore_ps(float *p, __m256i mask, __m256 a)
{
    int32_t lanes[8];
    float   x[8];

    _mm256_storeu_si256(lanes, mask);
    _mm256_storeu_ps(x, a);
    for (int i = 0; i < 8 && lanes[i]; i++)
        p[i] = x[i];
}

/* ---- numbers one by one -------------------------------------------------------------------------------- */

PAIR __m256i _mm256_set_m128i(__m128i hi, __m128i lo)
{
    return (__m256i){ lo, hi };
}

PAIR __m256i _mm256_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h)
{
    return (__m256i){ _mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h) };
}

PAIR __m256i _mm256_setr_epi64x(long long a, long long b, long long c, long long d)
{
    return (__m256i){ _mm_set_epi64x(b, a), _mm_set_epi64x(d, c) };
}

PAIR __m256i _mm256_set_epi64x(long long d, long long c, long long b, long long a)
{
    return _mm256_setr_epi64x(a, b, c, d);
}

PAIR float _mm256_cvtss_f32(__m256 a)
{
    return _mm_cvtss_f32(a.lo);
}

PAIR int _mm256_movemask_ps(__m256 a)
{
    return _mm_movemask_ps(a.lo) | _mm_movemask_ps(a.hi) << 4;
}

/* ---- halves -------------------------------------------------------------------------------------------- */

#define _mm256_castps256_ps128(a)         ((a).lo)
#define _mm256_castsi256_si128(a)         ((a).lo)
#define _mm256_castsi128_si256(a)         _mm256_set_m128i(_mm_setzero_si128(), a)
#define _mm256_extractf128_ps(a, high)    ((high) ? (a).hi : (a).lo)
#define _mm256_extracti128_si256(a, high) ((high) ? (a).hi : (a).lo)
#define _mm256_extract_epi32(a, i)        _mm_extract_epi32((i) < 4 ? (a).lo : (a).hi, (i) % 4)
#define _mm256_inserti128_si256(a, b, high) ((high) ? (__m256i){ (a).lo, b } : (__m256i){ b, (a).hi })

/* how: 0x20 takes the low halves of both, 0x31 the high halves. */
PAIR __m256 _mm256_permute2f128_ps(__m256 a, __m256 b, int how)
{
    return how == 0x20 ? (__m256){ a.lo, b.lo } : (__m256){ a.hi, b.hi };
}

PAIR __m256i _mm256_permute2x128_si256(__m256i a, __m256i b, int how)
{
    return how == 0x20 ? (__m256i){ a.lo, b.lo } : (__m256i){ a.hi, b.hi };
}

PAIR __m256i _mm256_permutevar8x32_epi32(__m256i a, __m256i order)
{
    int32_t from[8], to[8], i[8];

    _mm256_storeu_si256(from, a);
    _mm256_storeu_si256(i, order);
    for (int k = 0; k < 8; k++)
        to[k] = from[i[k] & 7];
    return _mm256_loadu_si256(to);
}

PAIR __m256 _mm256_permutevar8x32_ps(__m256 a, __m256i order)
{
    return _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(_mm256_castps_si256(a), order));
}

PAIR __m256i _mm256_cvtepu8_epi16(__m128i a)
{
    return (__m256i){ _mm_cvtepu8_epi16(a), _mm_cvtepu8_epi16(_mm_srli_si128(a, 8)) };
}

PAIR __m256i _mm256_cvtepi8_epi32(__m128i a)
{
    return (__m256i){ _mm_cvtepi8_epi32(a), _mm_cvtepi8_epi32(_mm_srli_si128(a, 4)) };
}

PAIR __m256i _mm256_cvtepu8_epi32(__m128i a)
{
    return (__m256i){ _mm_cvtepu8_epi32(a), _mm_cvtepu8_epi32(_mm_srli_si128(a, 4)) };
}

PAIR __m256i _mm256_cvtepu16_epi32(__m128i a)
{
    return (__m256i){ _mm_cvtepu16_epi32(a), _mm_cvtepu16_epi32(_mm_srli_si128(a, 8)) };
}

/* Shifts below 31: a product with a power of two, which is the float of that exponent. */
PAIR __m256i _mm256_sllv_epi32(__m256i a, __m256i n)
{
    __m256i biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
    __m256i power = _mm256_cvtps_epi32(_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
    return (__m256i){ _mm_mullo_epi32(a.lo, power.lo), _mm_mullo_epi32(a.hi, power.hi) };
}

/* ---- float16 ------------------------------------------------------------------------------------------- */

/* Join eight low and eight high halves to eight floats. */
PAIR __m256 halves_to_floats(__m128i low, __m128i high)
{
    __m256i both = _mm256_set_m128i(_mm_unpackhi_epi16(low, high), _mm_unpacklo_epi16(low, high));
    return _mm256_castsi256_ps(both);
}

/* Convert eight numbers, whose bits become the high and the low half of a float. The exponent of normal
 * numbers grows by 127 - 15, that of infinity and NaN by twice as much. A subnormal number becomes the
 * fraction of 2^-14, which is then subtracted; that from all others subtracts 0 and makes NaN quiet. Nothing
 * here is a subnormal float, which takes some processors a hundred cycles. */
PAIR __m256 _mm256_cvtph_ps(__m128i h)
{
    const __m128i zero = _mm_setzero_si128(), grow = _mm_set1_epi16(112 << 7);
    __m128i rest = _mm_and_si128(h, _mm_set1_epi16(0x7fff)), sign = _mm_xor_si128(h, rest);
    __m128i small = _mm_cmpgt_epi16(_mm_set1_epi16(0x400), rest);
    __m128i top   = _mm_cmpgt_epi16(rest, _mm_set1_epi16(0x7bff));
    __m128i high = _mm_add_epi16(_mm_add_epi16(_mm_srli_epi16(rest, 3), grow), _mm_and_si128(top, grow));
    __m128i low = _mm_slli_epi16(h, 13), less = _mm_and_si128(small, _mm_set1_epi16(113 << 7));

    high = _mm_add_epi16(high, _mm_and_si128(small, _mm_set1_epi16(1 << 7)));
    __m256 magnitude = _mm256_sub_ps(halves_to_floats(low, high), halves_to_floats(zero, less));
    return _mm256_or_ps(magnitude, halves_to_floats(zero, sign));
}

PAIR __m128 _mm_cvtph_ps(__m128i h)
{
    return _mm256_cvtph_ps(h).lo;
}

PAIR float _cvtsh_ss(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

#define _cvtss_sh(x, rounding) lm_f32_to_f16(x)

#define _mm256_cvtps_ph(a, rounding) f16_of_f32(a)
static inline __m128i f16_of_f32(__m256 a)
{
    float    x[8];
    uint16_t h[8];

    _mm256_storeu_ps(x, a);
    for (int i = 0; i < 8; i++)
        h[i] = lm_f32_to_f16(x[i]);
    return _mm_loadu_si128((const void *)h);
}

#endif
