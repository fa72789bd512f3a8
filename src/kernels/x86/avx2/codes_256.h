/* codes_256.h - read a unit of a strip (kernels/strips.h) into registers of 256 bits: the numbers of eight
 * rows as float32, their codes as bytes. strips.c defines the meaning of numbers and codes. */
#ifndef LM_KERNELS_CODES_256_H
#define LM_KERNELS_CODES_256_H

#include "kernels/byte_strips.h"
#include "kernels/strips.h"
#include "kernels/x86/vec_256.h"
#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS };

#define INLINE static inline __attribute__((always_inline))

/* ---- numbers of a unit: eight rows, selected by `part`
 * ----------------------------------------------------------- */

INLINE __m256 f16(const uint8_t *p, int part)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 16 * part)));
}

INLINE __m256i bytes_u8(const uint8_t *p, int part)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + 8 * part)));
}

INLINE __m256 d_f16(const lm_unit_at u, int half, int part)
{
    (void)half;
    return f16(u.unit, part);
}

/* The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE __m256 d_exponent(const lm_unit_at u, int half, int part)
{
    __m256i e = bytes_u8(u.unit, part);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    (void)half;
    return _mm256_castsi256_ps(
        _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

INLINE __m256 m_f16(const lm_unit_at u, int half, int part)
{
    (void)half;
    return f16(u.unit + 2 * R, part);
}

INLINE __m256 m_none(const lm_unit_at u, int half, int part)
{
    (void)u, (void)half, (void)part;
    return _mm256_setzero_ps();
}

/* Numbers in panels: m follows the one or two d of a row. */
INLINE __m256 d_f32(const lm_unit_at u, int half, int part)
{
    return _mm256_loadu_ps((const float *)(const void *)(u.unit + 64 * half + 32 * part));
}

INLINE __m256 m_after_1(const lm_unit_at u, int half, int part)
{
    return _mm256_loadu_ps((const float *)(const void *)(u.unit + 64 + 64 * half + 32 * part));
}

INLINE __m256 m_after_2(const lm_unit_at u, int half, int part)
{
    return _mm256_loadu_ps((const float *)(const void *)(u.unit + 128 + 64 * half + 32 * part));
}

/* ---- numbers of eight units: one or two f16, times a scale
 * -------------------------------------------------------- */

INLINE __m256 times_head(const uint8_t *head, __m256i scale, int part)
{
    return _mm256_mul_ps(f16(head, part), _mm256_cvtepi32_ps(scale));
}

INLINE __m256i bytes_i8(const uint8_t *p, int part)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8 * part)));
}

/* A signed byte per 32 or 16 columns. */
INLINE __m256 d_signed(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_head(u.head, bytes_i8(u.scales + u.of8 * R, part), part);
}

INLINE __m256 d_signed_half(const lm_unit_at u, int half, int part)
{
    return times_head(u.head, bytes_i8(u.scales + (2 * u.of8 + (unsigned)half) * R, part), part);
}

/* The first of two bytes, the second. */
INLINE __m256 d_first(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_head(u.head, bytes_u8(u.scales + 2 * u.of8 * R, part), part);
}

INLINE __m256 m_second(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_head(u.head + 2 * R, bytes_u8(u.scales + (2 * u.of8 + 1) * R, part), part);
}

/* The low and the high half of a byte per 16 columns. */
INLINE __m256 d_low(const lm_unit_at u, int half, int part)
{
    __m256i both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R, part);
    return times_head(u.head, _mm256_and_si256(both, _mm256_set1_epi32(15)), part);
}

INLINE __m256 m_high(const lm_unit_at u, int half, int part)
{
    __m256i both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R, part);
    return times_head(u.head + 2 * R, _mm256_srli_epi32(both, 4), part);
}

/* ---- codes of a unit: four columns of eight rows
 * ----------------------------------------------------------------- */

INLINE __m256i plane(const uint8_t *p, int v, int part)
{
    return _mm256_loadu_si256((const void *)(p + 64 * v + 32 * part));
}

INLINE __m256i low4(__m256i b)
{
    return _mm256_and_si256(b, _mm256_set1_epi8(15));
}

INLINE __m256i high4(__m256i b)
{
    return _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(15));
}

INLINE __m256i c_nibbles(const uint8_t *p, const int v, const int part)
{
    __m256i b = plane(p, v % 4, part);
    return v < 4 ? low4(b) : high4(b);
}

/* Return the bit field that begins at bit `from`, moved to bit `to`. */
INLINE __m256i moved(__m256i b, const int from, const int to, const int mask)
{
    b = from > to ? _mm256_srli_epi16(b, from - to) : from < to ? _mm256_slli_epi16(b, to - from) : b;
    return _mm256_and_si256(b, _mm256_set1_epi8((char)(mask << to)));
}

INLINE __m256i pairs(const uint8_t *p, const int v, const int part, const int to)
{
    return moved(plane(p, v / 4, part), 2 * (v % 4), to, 3);
}

INLINE __m256i bits(const uint8_t *p, const int v, const int part, const int to)
{
    return moved(plane(p, 0, part), v, to, 1);
}

INLINE __m256i c_nibbles_bit(const uint8_t *p, const int v, const int part)
{
    return _mm256_or_si256(c_nibbles(p, v, part), bits(p + 16 * R, v, part, 4));
}

INLINE __m256i c_nibbles_pair(const uint8_t *p, const int v, const int part)
{
    return _mm256_or_si256(c_nibbles(p, v, part), pairs(p + 16 * R, v, part, 4));
}

INLINE __m256i c_pairs(const uint8_t *p, const int v, const int part)
{
    return pairs(p, v, part, 0);
}

INLINE __m256i c_pairs_bit(const uint8_t *p, const int v, const int part)
{
    return _mm256_or_si256(pairs(p, v, part, 0), bits(p + 8 * R, v, part, 2));
}

INLINE __m256i c_bytes(const uint8_t *p, const int v, const int part)
{
    return _mm256_xor_si256(plane(p, v, part), _mm256_set1_epi8((char)0x80));
}

INLINE __m256i c_plain(const uint8_t *p, const int v, const int part)
{
    return plane(p, v, part);
}

/* IQ4 values + 128; FP4 values + 12. */
INLINE __m256i c_iq4(const uint8_t *p, const int v, const int part)
{
    __m128i values = _mm_xor_si128(_mm_loadu_si128((const void *)lm_iq4_values), _mm_set1_epi8((char)0x80));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), c_nibbles(p, v, part));
}

INLINE __m256i c_fp4(const uint8_t *p, const int v, const int part)
{
    __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), c_nibbles(p, v, part));
}

#endif
