#include "kernels/x86/avx512/bf16_strips.h"

#include <immintrin.h>
#include <string.h>

enum { R = LM_STRIP_ROWS };

static uint64_t row_bytes(uint64_t cols)
{
    return lm_bf16_pairs(cols) * 4;
}

static void pack_row(void *dst, const float *x, uint64_t cols)
{
    uint16_t *y = dst;

    for (uint64_t i = 0; i < 2 * lm_bf16_pairs(cols); i += 16) {
        __mmask16 lanes = (__mmask16)(i + 16 <= cols ? 0xffffu : i < cols ? (1u << (cols - i)) - 1 : 0u);
        _mm256_store_si256((void *)(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
    }
}

const lm_activation lm_activation_bf16 = { .name = "bf16", .bytes = row_bytes, .pack = pack_row };

uint64_t lm_bf16_packed_bytes(uint64_t rows, uint64_t cols)
{
    return (rows + R - 1) / R * lm_bf16_strip(cols);
}

void lm_bf16_pack(void *dst, const void *stored, uint64_t rows, uint64_t cols, uint64_t first, uint64_t last)
{
    (void)rows;
    for (uint64_t at = first; at < last; at += R) {
        uint8_t *strip = (uint8_t *)dst + at / R * lm_bf16_strip(cols);
        if (last - at < R || cols % 32)
            memset(strip, 0, lm_bf16_strip(cols));
        for (uint64_t from = 0; from < cols; from += 64)     /* a few cache lines of every row at a time */
            for (uint64_t i = 0; i < R && at + i < last; i++) {
                const uint8_t *row = (const uint8_t *)stored + (at + i) * cols * 2;
                uint64_t to = cols - from < 64 ? cols : from + 64, k = from;
                for (; k + 2 <= to; k += 2)
                    memcpy(strip + (k / 2 * R + i) * 4, row + 2 * k, 4);
                if (k < to)
                    memcpy(strip + (k / 2 * R + i) * 4, row + 2 * k, 2);
            }
    }
}

void lm_bf16_row(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)
{
    const uint8_t *strip = (const uint8_t *)w + row / R * lm_bf16_strip(cols);

    (void)rows;
    for (uint64_t k = 0; k < cols; k++) {
        uint16_t half;
        memcpy(&half, strip + (k / 2 * R + row % R) * 4 + k % 2 * 2, 2);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(dst + k, &bits, 4);
    }
}
