/* strips_neon.c - the products of strips_arm.h by smull and sadalp, which every 64-bit ARM has. */
#define LEVEL "neon"

#include "kernels/arm/strips_arm.h"

INLINE void dots(code_fn *codes, const uint8_t *p, const uint8_t *const *x, const int from, const int to,
                 const int tokens, int32x4_t sum[PARTS][TOKENS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {
        int32x4_t two[2][TOKENS];                    /* rows 0 and 1, rows 2 and 3, two lanes each */
        for (int j = 0; j < tokens; j++)
            two[0][j] = two[1][j] = vdupq_n_s32(0);
#pragma GCC unroll 8
        for (int v = from; v < to; v++) {
            int8x16_t w = codes(p, v, part);
#pragma GCC unroll 4
            for (int j = 0; j < tokens; j++) {
                int32_t four;
                memcpy(&four, x[j] + 4 * v, sizeof four);
                int8x8_t b = vreinterpret_s8_s32(vdup_n_s32(four));
                two[0][j] = vpadalq_s16(two[0][j], vmull_s8(vget_low_s8(w), b));
                two[1][j] = vpadalq_s16(two[1][j], vmull_s8(vget_high_s8(w), b));
            }
        }
        for (int j = 0; j < tokens; j++)
            sum[part][j] = vpaddq_s32(two[0][j], two[1][j]);
    }
}

void lm_strips_init_neon(lm_kernels *k)
{
    init_strips(k);
}
