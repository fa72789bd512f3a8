/* pages_512.h - unpack keys and values stored in blocks (pages_avx2.c) to sixteen floats at a time,
 * bit-identical to unpack of dtype.h. `type` is a constant in every call. */
#ifndef LM_KERNELS_PAGES_512_H
#define LM_KERNELS_PAGES_512_H

#include <immintrin.h>
#include <string.h>

#include "kernels/attention_parts.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "tensor/blocks.h"

INLINE bool has_minimum(const lm_dtype type)
{
    return type == LM_Q4_1 || type == LM_Q5_1;
}

INLINE bool has_fifth_bits(const lm_dtype type)
{
    return type == LM_Q5_0 || type == LM_Q5_1;
}

INLINE uint32_t block_bytes(const lm_dtype type)
{
    return (type == LM_Q8_0 ? 32u : 16u) + (has_fifth_bits(type) ? 4u : 0u) + 2 * lm_block_scales(type);
}

/* The factor of codes, and the addend. */
typedef struct scales {
    __m512 d, m;
} scales;

INLINE __m512 scaled(const lm_dtype type, __m128i codes, scales s)
{
    __m512 x = _mm512_mul_ps(s.d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)));

    return has_minimum(type) ? _mm512_add_ps(x, s.m) : x;
}

/* ---- keys: a block is 64 keys of 32 lanes
 * ------------------------------------------------------------------------ */

INLINE void scales_of_keys(const lm_dtype type, const uint8_t *block, scales s[4])
{
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        s[v].d = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(block + 32 * v)));
        s[v].m = has_minimum(type)
                     ? _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(block + 2 * LM_PAGE + 32 * v)))
                     : s[v].d;
    }
}

/* Read the codes of lane 16 * half + i of all keys. */
INLINE void codes_of_lane(const lm_dtype type, const uint8_t *block, const int half, uint32_t i,
                          __m128i codes[4])
{
    const uint8_t *fifth = block + 2 * LM_PAGE * lm_block_scales(type),
                  *lanes = fifth + (has_fifth_bits(type) ? 4 * LM_PAGE : 0);
    __m512i x = _mm512_loadu_si512(lanes + (i + (type == LM_Q8_0 ? 16u * (unsigned)half : 0)) * LM_PAGE);

    if (type != LM_Q8_0)
        x = _mm512_and_si512(half ? _mm512_srli_epi16(x, 4) : x, _mm512_set1_epi8(15));
    if (has_fifth_bits(type)) {
        __m512i  bits = _mm512_loadu_si512(fifth + (2 * (unsigned)half + i / 8) * LM_PAGE);
        __mmask64 set = _mm512_test_epi8_mask(bits, _mm512_set1_epi8((char)(1u << i % 8)));
        x = _mm512_mask_add_epi8(x, set, x, _mm512_set1_epi8(16));
    }
    if (type == LM_Q4_0 || type == LM_Q5_0)
        x = _mm512_sub_epi8(x, _mm512_set1_epi8(type == LM_Q4_0 ? 8 : 16));
    codes[0] = _mm512_castsi512_si128(x);
    codes[1] = _mm512_extracti32x4_epi32(x, 1);
    codes[2] = _mm512_extracti32x4_epi32(x, 2);
    codes[3] = _mm512_extracti32x4_epi32(x, 3);
}

/* ---- values: rows of blocks
 * -------------------------------------------------------------------------------------- */

INLINE scales scales_of_value(const lm_dtype type, const uint8_t *block)
{
    uint16_t d, m = 0;

    memcpy(&d, block, 2);
    if (has_minimum(type))
        memcpy(&m, block + 2, 2);
    return (scales){ _mm512_set1_ps(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(d)))),
                     _mm512_set1_ps(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(m)))) };
}

/* Unpack lanes 16 * half … 16 * half + 15 of a block. */
INLINE __m512 lanes_of_value(const lm_dtype type, const uint8_t *block, const int half, scales s)
{
    const uint8_t *lanes = block + block_bytes(type) - (type == LM_Q8_0 ? 32 : 16);
    __m128i x = _mm_loadu_si128((const void *)(lanes + (type == LM_Q8_0 ? 16 * half : 0)));

    if (type != LM_Q8_0)
        x = _mm_and_si128(half ? _mm_srli_epi16(x, 4) : x, _mm_set1_epi8(15));
    if (has_fifth_bits(type)) {
        uint32_t bits;
        memcpy(&bits, lanes - 4, 4);
        x = _mm_mask_add_epi8(x, (__mmask16)(bits >> 16 * half), x, _mm_set1_epi8(16));
    }
    if (type == LM_Q4_0 || type == LM_Q5_0)
        x = _mm_sub_epi8(x, _mm_set1_epi8(type == LM_Q4_0 ? 8 : 16));
    return scaled(type, x, s);
}

#endif
