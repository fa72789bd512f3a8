/* pairs_512.h - convert rows of a page to pairs of bfloat16: two lanes of a key or two positions of a value
 * are adjacent. */
#ifndef LM_KERNELS_PAIRS_512_H
#define LM_KERNELS_PAIRS_512_H

#include "kernels/x86/avx512/pages_512.h"
#include "kernels/x86/avx512/vec_avx512.h"

/* Load sixteen pairs of lanes, from lane `at` on, of rows 2 pair and 2 pair + 1, each `stride` lanes long. */
typedef __m512i load_fn(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at);

/* Interleave two consecutive vectors of sixteen 16-bit numbers to pairs. */
INLINE __m512i interleave(__m512i halves)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, halves);
}

INLINE __m512i load_pairs(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    return _mm512_loadu_si512(p + 4 * (pair * stride + at));
}

INLINE __m512i load_f16(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    const uint8_t *row = p + 2 * (2 * pair * stride + at);
    __m512 even = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)row));
    __m512 odd = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(row + 2 * stride)));

    return interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

INLINE __m512i load_bf16(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    const uint8_t *row = p + 2 * (2 * pair * stride + at);
    __m256i even = _mm256_loadu_si256((const void *)row),
            odd = _mm256_loadu_si256((const void *)(row + 2 * stride));

    return interleave(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
}

INLINE void pairs_of_rows(load_fn *load, uint32_t *to, const uint8_t *rows, uint32_t first, uint32_t last,
                          uint32_t width)
{
    for (uint32_t pair = first; pair < last; pair++)
        for (uint32_t at = 0; at < width; at += 16)
            _mm512_storeu_si512(to + (uint64_t)pair * width + at, load(rows, pair, width, at));
}

/* Convert sixteen lanes of all keys of a page, [16][64] as stored, to pairs of positions: the values of
 * latent attention. A pair is already adjacent in a row of keys, so this transposes words. */
INLINE void pairs_of_lanes(bool f16, uint32_t *to, const uint8_t *keys, uint64_t width)
{
    for (int half = 0; half < 2; half++, keys += LM_PAGE, to += 16 * width) {
        __m512i a[16], b[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m512i x = _mm512_loadu_si512(keys + 2 * LM_PAGE * i);
            if (f16)
                x = (__m512i)_mm512_cvtne2ps_pbh(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1)),
                                                 _mm512_cvtph_ps(_mm512_castsi512_si256(x)));
            a[i] = x;
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4) {        /* a[i + k]: word k of each quarter, rows i to i + 3 */
            a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
            a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
            a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
            a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m512i low = _mm512_shuffle_i32x4(a[k], a[4 + k], 0x44),
                    high = _mm512_shuffle_i32x4(a[k], a[4 + k], 0xee);
            __m512i low2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0x44),
                    high2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0xee);
            _mm512_storeu_si512(to + (uint64_t)k * width, _mm512_shuffle_i32x4(low, low2, 0x88));
            _mm512_storeu_si512(to + (uint64_t)(4 + k) * width, _mm512_shuffle_i32x4(low, low2, 0xdd));
            _mm512_storeu_si512(to + (uint64_t)(8 + k) * width, _mm512_shuffle_i32x4(high, high2, 0x88));
            _mm512_storeu_si512(to + (uint64_t)(12 + k) * width, _mm512_shuffle_i32x4(high, high2, 0xdd));
        }
    }
}

/* Convert rows of float32; if their number is odd, the missing row is zero. */
static void pairs_of_floats(uint32_t *to, const float *rows, uint32_t first, uint32_t last, uint32_t n,
                            uint32_t width)
{
    for (uint32_t pair = first; pair < last; pair++) {
        const float *row = rows + (uint64_t)2 * pair * width;
        for (uint32_t at = 0; at < width; at += 16) {
            __mmask16 lanes = vec512_lanes(width - at);
            __m512 even = _mm512_maskz_loadu_ps(lanes, row + at);
            __m512 odd = 2 * pair + 1 < n ? _mm512_maskz_loadu_ps(lanes, row + width + at)
                                          : _mm512_setzero_ps();
            _mm512_mask_storeu_epi32(to + (uint64_t)pair * width + at, lanes,
                                     interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even)));
        }
    }
}

INLINE __m512i pair_of(__m512 even, __m512 odd)
{
    return interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* Convert keys stored in blocks: lanes 2i and 2i + 1 of all keys. */
INLINE void pairs_of_key_blocks(const lm_dtype type, uint32_t *to, const uint8_t *block, uint32_t dim)
{
    for (uint32_t b = 0; b < dim / 32; b++, block += block_bytes(type) * LM_PAGE) {
        scales s[4];
        scales_of_keys(type, block, s);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
            for (uint32_t i = 0; i < 16; i += 2, to += LM_PAGE) {
                __m128i even[4], odd[4];
                codes_of_lane(type, block, half, i, even);
                codes_of_lane(type, block, half, i + 1, odd);
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++)
                    _mm512_storeu_si512(to + 16 * v,
                                        pair_of(scaled(type, even[v], s[v]), scaled(type, odd[v], s[v])));
            }
    }
}

/* Convert values stored in blocks: rows 2i and 2i + 1. */
INLINE void pairs_of_value_blocks(const lm_dtype type, uint32_t *to, const uint8_t *rows, uint32_t first,
                                  uint32_t last, uint32_t dim)
{
    const uint64_t stride = (uint64_t)(dim / 32) * block_bytes(type);

    to += (uint64_t)first * dim;
    for (uint32_t pair = first; pair < last; pair++) {
        const uint8_t *even = rows + 2 * pair * stride, *odd = even + stride;
        for (uint32_t b = 0; b < dim / 32;
             b++, even += block_bytes(type), odd += block_bytes(type), to += 32) {
            scales s = scales_of_value(type, even), t = scales_of_value(type, odd);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++)
                _mm512_storeu_si512(to + 16 * half, pair_of(lanes_of_value(type, even, half, s),
                                                            lanes_of_value(type, odd, half, t)));
        }
    }
}

#endif
