/* bf16_strips.c - pack matrices of bfloat16 into strips, and read a row back. */
#include "kernels/x86/avx512/bf16_strips.h"

#include <string.h>

enum { R = LM_STRIP_ROWS };

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
