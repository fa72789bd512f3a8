/* codes_avx512.h - read a unit of a strip (kernels/strips.h) into registers: the numbers of sixteen rows as
 * float32, their codes as unsigned bytes, four columns of a row per lane. */
#ifndef LM_KERNELS_CODES_AVX512_H
#define LM_KERNELS_CODES_AVX512_H

#include <immintrin.h>

#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS };                     /* rows of a strip */

#define INLINE static inline __attribute__((always_inline))

/* ---- numbers of a unit
 * ------------------------------------------------------------------------------------------- */

INLINE __m512 f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512i bytes_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}

INLINE __m512 d_f16(const lm_unit_at u, int half)
{
    (void)half;
    return f16(u.unit);
}

/* The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE __m512 d_exponent(const lm_unit_at u, int half)
{
    __m512i e = bytes_u8(u.unit);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    (void)half;
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
}

INLINE __m512 m_f16(const lm_unit_at u, int half)
{
    (void)half;
    return f16(u.unit + 2 * R);
}

INLINE __m512 m_none(const lm_unit_at u, int half)
{
    (void)u, (void)half;
    return _mm512_setzero_ps();
}

/* Numbers in panels and strips of bytes: float32, d of each half, then m of each half. */
INLINE __m512 d_panel(const lm_unit_at u, int half)
{
    return _mm512_loadu_ps(u.unit + 64 * half);
}

INLINE __m512 m_panel_1(const lm_unit_at u, int half)
{
    (void)half;
    return _mm512_loadu_ps(u.unit + 64);
}

INLINE __m512 m_panel_2(const lm_unit_at u, int half)
{
    return _mm512_loadu_ps(u.unit + 128 + 64 * half);
}

/* ---- numbers of eight units: one or two f16, times a scale
 * -------------------------------------------------------- */

INLINE __m512 times_head(const uint8_t *head, __m512i scale)
{
    return _mm512_mul_ps(f16(head), _mm512_cvtepi32_ps(scale));
}

/* A signed byte per 32 or 16 columns. */
INLINE __m512 d_signed(const lm_unit_at u, int half)
{
    (void)half;
    return times_head(u.head, _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(u.scales + u.of8 * R))));
}

INLINE __m512 d_signed_half(const lm_unit_at u, int half)
{
    return times_head(u.head, _mm512_cvtepi8_epi32(_mm_loadu_si128(
                                  (const void *)(u.scales + (2 * u.of8 + (unsigned)half) * R))));
}

/* The first of two bytes, the second. */
INLINE __m512 d_first(const lm_unit_at u, int half)
{
    (void)half;
    return times_head(u.head, bytes_u8(u.scales + 2 * u.of8 * R));
}

INLINE __m512 m_second(const lm_unit_at u, int half)
{
    (void)half;
    return times_head(u.head + 2 * R, bytes_u8(u.scales + (2 * u.of8 + 1) * R));
}

/* The low and the high half of a byte per 16 columns. */
INLINE __m512 d_low(const lm_unit_at u, int half)
{
    __m512i both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R);
    return times_head(u.head, _mm512_and_si512(both, _mm512_set1_epi32(15)));
}

INLINE __m512 m_high(const lm_unit_at u, int half)
{
    __m512i both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R);
    return times_head(u.head + 2 * R, _mm512_srli_epi32(both, 4));
}

/* ---- codes of a unit: four columns of sixteen rows
 * --------------------------------------------------------------- */

INLINE __m512i plane(const uint8_t *p, int v)
{
    return _mm512_loadu_si512(p + 64 * v);
}

INLINE __m512i nibbles(const uint8_t *p, const int v)
{
    __m512i b = plane(p, v % 4);
    return _mm512_and_si512(v < 4 ? b : _mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}

/* The same if v is not a constant. */
INLINE __m512i nibbles_at(const uint8_t *p, int v)
{
    return _mm512_and_si512(_mm512_srl_epi16(plane(p, v & 3), _mm_cvtsi32_si128(v & 4)),
                            _mm512_set1_epi8(15));
}

/* The two-bit field moved to bits `to` and `to + 1`. */
INLINE __m512i pairs(const uint8_t *p, const int v, const int to)
{
    __m512i b = plane(p, v / 4);
    const int shift = 2 * (v % 4) - to;
    b = shift > 0 ? _mm512_srli_epi16(b, shift) : shift < 0 ? _mm512_slli_epi16(b, -shift) : b;
    return _mm512_and_si512(b, _mm512_set1_epi8((char)(3 << to)));
}

/* The bit moved to bit `to`. */
INLINE __m512i bits(const uint8_t *p, const int v, const int to)
{
    __m512i b = plane(p, 0);
    b = v > to ? _mm512_srli_epi16(b, v - to) : v < to ? _mm512_slli_epi16(b, to - v) : b;
    return _mm512_and_si512(b, _mm512_set1_epi8((char)(1 << to)));
}

INLINE __m512i c_nibbles(const uint8_t *p, const int v)
{
    return nibbles(p, v);
}

INLINE __m512i c_nibbles_bit(const uint8_t *p, const int v)
{
    return _mm512_or_si512(nibbles(p, v), bits(p + 16 * R, v, 4));
}

INLINE __m512i c_nibbles_pair(const uint8_t *p, const int v)
{
    return _mm512_or_si512(nibbles(p, v), pairs(p + 16 * R, v, 4));
}

INLINE __m512i c_pairs(const uint8_t *p, const int v)
{
    return pairs(p, v, 0);
}

INLINE __m512i c_pairs_bit(const uint8_t *p, const int v)
{
    return _mm512_or_si512(pairs(p, v, 0), bits(p + 8 * R, v, 2));
}

INLINE __m512i c_bytes(const uint8_t *p, const int v)
{
    return _mm512_xor_si512(plane(p, v), _mm512_set1_epi8((char)0x80));
}

INLINE __m512i c_panel(const uint8_t *p, const int v)
{
    return plane(p, v);
}

/* IQ4 values + 128; FP4 values + 12. */
INLINE __m512i c_iq4(const uint8_t *p, const int v)
{
    __m128i values = _mm_xor_si128(_mm_loadu_si128((const void *)lm_iq4_values), _mm_set1_epi8((char)0x80));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles(p, v));
}

INLINE __m512i c_fp4(const uint8_t *p, const int v)
{
    __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles(p, v));
}

#endif
