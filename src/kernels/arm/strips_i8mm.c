/* strips_i8mm.c - the products of strips_arm.h by smmla, which multiplies two rows of the matrix with two
 * rows of x over eight columns. Two vectors of a strip are interleaved to eight columns of two rows; a row of
 * x without a partner uses sdot. */
#define LEVEL "i8mm"

#include "kernels/arm/strips_arm.h"

INLINE void pair_dots(code_fn *codes, const uint8_t *p, const uint8_t *x0, const uint8_t *x1, const int from,
                      const int to, const int j, int32x4_t sum[PARTS][TOKENS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {
        /* rows 0 and 1, rows 2 and 3: [row][row of x] */
        int32x4_t two[2] = { vdupq_n_s32(0), vdupq_n_s32(0) };
#pragma GCC unroll 4
        for (int v = from; v < to; v += 2) {
            int32x4_t a = vreinterpretq_s32_s8(codes(p, v, part)),
                      c = vreinterpretq_s32_s8(codes(p, v + 1, part));
            int8x16_t b = vcombine_s8(vld1_s8((const int8_t *)x0 + 4 * v),
                                      vld1_s8((const int8_t *)x1 + 4 * v));
            two[0] = vmmlaq_s32(two[0], vreinterpretq_s8_s32(vzip1q_s32(a, c)), b);
            two[1] = vmmlaq_s32(two[1], vreinterpretq_s8_s32(vzip2q_s32(a, c)), b);
        }
        sum[part][j] = vuzp1q_s32(two[0], two[1]);
        sum[part][j + 1] = vuzp2q_s32(two[0], two[1]);
    }
}

INLINE void lone_dots(code_fn *codes, const uint8_t *p, const uint8_t *x, const int from, const int to,
                      const int j, int32x4_t sum[PARTS][TOKENS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {
        sum[part][j] = vdupq_n_s32(0);
#pragma GCC unroll 8
        for (int v = from; v < to; v++) {
            int32_t four;
            memcpy(&four, x + 4 * v, sizeof four);
            sum[part][j] = vdotq_s32(sum[part][j], codes(p, v, part),
                                     vreinterpretq_s8_s32(vdupq_n_s32(four)));
        }
    }
}

INLINE void dots(code_fn *codes, const uint8_t *p, const uint8_t *const *x, const int from, const int to,
                 const int tokens, int32x4_t sum[PARTS][TOKENS])
{
    int j = 0;

#pragma GCC unroll 2
    for (; j + 2 <= tokens; j += 2)
        pair_dots(codes, p, x[j], x[j + 1], from, to, j, sum);
    if (j < tokens)
        lone_dots(codes, p, x[j], from, to, j, sum);
}

void lm_strips_init_i8mm(lm_kernels *k)
{
    init_strips(k);
}
