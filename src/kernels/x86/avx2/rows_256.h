/* rows_256.h - read the blocks of a file, eight rows at a time, with AVX2: the functions that rows_lanes.h
 * needs. */
#ifndef LM_KERNELS_ROWS_256_H
#define LM_KERNELS_ROWS_256_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

typedef uint32_t words __attribute__((vector_size(4 * LANES)));

#include "kernels/rows_lanes.h"

INLINE void four_words(const stored_rows r, uint64_t at, words out[4])
{
    __m256i a[4], b[4];

#pragma GCC unroll 4
    for (uint64_t i = 0; i < 4; i++) {
        const uint8_t *p = r.p + i * r.stride + at;
        __m128i low = _mm_loadu_si128((const void *)p),
                high = _mm_loadu_si128((const void *)(p + 4 * r.stride));
        a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        b[i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 + i] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        out[2 * i] = (words)_mm256_unpacklo_epi64(b[2 * i], b[2 * i + 1]);
        out[2 * i + 1] = (words)_mm256_unpackhi_epi64(b[2 * i], b[2 * i + 1]);
    }
}

INLINE void put_words(uint8_t *to, words w)
{
    _mm256_storeu_si256((void *)to, (__m256i)w);
}

INLINE void put_bytes(uint8_t *to, uint64_t step, words w)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8((__m256i)w, order),
                                                _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    uint64_t rows_of[4];

    memcpy(rows_of, &bytes, sizeof rows_of);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        memcpy(to + (uint64_t)j * step, &rows_of[j], sizeof rows_of[j]);
}

INLINE void ahead(const uint8_t *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}

#endif
