/* rows_lanes.h - read the blocks of a file, LANES rows at a time: a unit's parts are vectors of words.
 *
 * Define before including it: INLINE; LANES (a divisor of 16); `words`, LANES words of 32 bits, one per row;
 * and
 *
 *   four_words(rows, at, out)    out[0 … 3]: the sixteen bytes at offset `at` of each row
 *   put_words(to, w)             store the words of all rows, one after another
 *   put_bytes(to, step, w)       store byte j of each word, row after row, at to + j * step
 *   ahead(p)                     prefetch the cache line of p; p may be no valid address */
#ifndef LM_KERNELS_ROWS_LANES_H
#define LM_KERNELS_ROWS_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/strips.h"
#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS };

/* Rows of a file, `stride` bytes apart. */
typedef struct stored_rows {
    const uint8_t *p;
    uint64_t stride;
} stored_rows;

INLINE void four_words(const stored_rows r, uint64_t at, words out[4]);
INLINE void put_words(uint8_t *to, words w);
INLINE void put_bytes(uint8_t *to, uint64_t step, words w);
INLINE void ahead(const uint8_t *p);

/* Store the scales of eight units as bytes, which write_scales then packs: to [8 or 16][R], from the first of
 * these rows on. */
INLINE void put_scales(const lm_dtype type, const stored_rows r, uint8_t *to)
{
    words w[4];

    switch ((int)type) {
    case LM_IQ4_XS:
        four_words(r, 0, w);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            words four = w[0] & 0;
#pragma GCC unroll 4
            for (int i = 0, s = 4 * half; i < 4; i++, s++)
                four |= ((w[1] >> 4 * s & 15) | (w[0] >> (16 + 2 * s) & 3) << 4) << 8 * i;
            put_bytes(to + 4 * R * half, R, four);
        }
        break;
    case LM_Q4_K: case LM_Q5_K:                      /* as lm_k4_scale_min */
        four_words(r, 0, w);
        put_bytes(to, 2 * R, w[1] & 0x3f3f3f3f);
        put_bytes(to + R, 2 * R, w[2] & 0x3f3f3f3f);
        put_bytes(to + 8 * R, 2 * R, (w[3] & 0x0f0f0f0f) | (w[1] >> 2 & 0x30303030));
        put_bytes(to + 9 * R, 2 * R, (w[3] >> 4 & 0x0f0f0f0f) | (w[2] >> 2 & 0x30303030));
        break;
    case LM_Q3_K:                                    /* as lm_k3_scale, plus 32 */
        four_words(r, offsetof(lm_q3_k, scales) - 4, w);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            put_bytes(to + 4 * R * g, R,
                      (w[1 + g % 2] >> g / 2 * 4 & 0x0f0f0f0f) | (w[3] >> 2 * g & 0x03030303) << 4);
        break;
    default:
        four_words(r, type == LM_Q6_K ? offsetof(lm_q6_k, scales) : offsetof(lm_q2_k, scales), w);
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++)
            put_bytes(to + 4 * R * g, R, w[g]);
    }
}

#endif
