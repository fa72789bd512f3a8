/* float_pack_avx2.c - pack matrices of floats into the strips of float_strips.h: transpose sixteen rows at a
 * time, as fast as reading. */
#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"

enum { R = LM_FLOAT_ROWS, LINES = 128 };        /* bytes of a row read at a time: few rows that are 2^n bytes
                                                   apart stay in the cache */

/* Transpose eight two-byte columns of sixteen rows, LINES bytes apart, to [8][16]. Lane l of a register holds
 * rows 8 l … 8 l + 7. */
static inline void turn_8(uint8_t *dst, const uint8_t *src)
{
    __m256i a[8], b[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        __m128i low = _mm_loadu_si128((const void *)(src + LINES * i)),
                high = _mm_loadu_si128((const void *)(src + LINES * (i + 8)));
        a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(dst + 64 * i), _mm256_unpacklo_epi16(a[i], a[i + 4]));
        _mm256_storeu_si256((void *)(dst + 64 * i + 32), _mm256_unpackhi_epi16(a[i], a[i + 4]));
    }
}

/* Transpose four four-byte columns of eight rows to half of [4][16]. */
static inline void turn_4(uint8_t *dst, const uint8_t *src)
{
    __m256i a[4], b[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m128i low = _mm_loadu_si128((const void *)(src + LINES * i)),
                high = _mm_loadu_si128((const void *)(src + LINES * (i + 4)));
        a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        b[2 * i] = _mm256_unpacklo_epi32(a[i], a[i + 2]);
        b[2 * i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 2]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        _mm256_storeu_si256((void *)(dst + 128 * i), _mm256_unpacklo_epi32(b[i], b[i + 2]));
        _mm256_storeu_si256((void *)(dst + 128 * i + 64), _mm256_unpackhi_epi32(b[i], b[i + 2]));
    }
}

/* Transpose `bytes` bytes of each row, LINES bytes apart at src, to columns of sixteen. */
static void turn(uint8_t *dst, const uint8_t *src, uint32_t size, uint64_t bytes)
{
    uint64_t at = 0;

    for (; at + 16 <= bytes; at += 16) {
        if (size == 2) {
            turn_8(dst + at * R, src + at);
        } else {
            turn_4(dst + at * R, src + at);
            turn_4(dst + at * R + 32, src + at + 8 * LINES);
        }
    }
    for (; at < bytes; at += size)
        for (uint64_t i = 0; i < R; i++)
            memcpy(dst + at * R + i * size, src + i * LINES + at, size);
}

uint64_t lm_float_strips_bytes(uint32_t size, uint64_t rows, uint64_t cols)
{
    return (rows + R - 1) / R * R * cols * size;
}

void lm_float_strips_pack(uint32_t size, void *dst, const void *stored, uint64_t cols, uint64_t first,
                          uint64_t last)
{
    uint64_t row_bytes = cols * size;

    for (uint64_t at = first; at < last; at += R) {
        uint8_t *strip = (uint8_t *)dst + at * row_bytes;
        uint64_t rows = last - at < R ? last - at : R;
        uint8_t lines[R * LINES] = { 0 };
        for (uint64_t from = 0; from < row_bytes; from += LINES) {
            uint64_t bytes = row_bytes - from < LINES ? row_bytes - from : LINES;
            for (uint64_t i = 0; i < rows; i++) {
                const uint8_t *src = (const uint8_t *)stored + (at + i) * row_bytes + from;
                if (bytes == LINES)
                    memcpy(lines + i * LINES, src, LINES);
                else
                    memcpy(lines + i * LINES, src, bytes);
            }
            turn(strip + from * R, lines, size, bytes);
        }
    }
}

void lm_float_strips_row(lm_dtype type, float *dst, const void *w, uint64_t cols, uint64_t row)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    const uint8_t *p = (const uint8_t *)w + (row / R * R * cols + row % R) * t->bytes;
    uint8_t some[64 * 4];

    for (uint64_t at = 0; at < cols; at += 64) {
        uint64_t n = cols - at < 64 ? cols - at : 64;
        for (uint64_t k = 0; k < n; k++, p += R * t->bytes)
            memcpy(some + k * t->bytes, p, t->bytes);
        lm_unpack_avx2(type)(dst + at, some, n);
    }
}
