/* strips_dotprod.c - the products of strips_arm.h by sdot: four columns of a row in each lane, activations by
 * element. */
#define LEVEL "dotprod"

#include "kernels/arm/strips_arm.h"

/* The element must be an immediate of the instruction. */
#define BY(i) case i: return vdotq_laneq_s32(sum, w, x, i)
INLINE int32x4_t dot(int32x4_t sum, int8x16_t w, int8x16_t x, const int element)
{
    switch (element) {
        BY(0);
        BY(1);
        BY(2);
    default: return vdotq_laneq_s32(sum, w, x, 3);
    }
}
#undef BY

INLINE void dots(code_fn *codes, const uint8_t *p, const uint8_t *const *x, const int from, const int to,
                 const int tokens, int32x4_t sum[PARTS][TOKENS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++)
        for (int j = 0; j < tokens; j++)
            sum[part][j] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int first = from; first < to; first += 4) {
        int8x16_t b[TOKENS];
        for (int j = 0; j < tokens; j++)
            b[j] = vld1q_s8((const int8_t *)x[j] + 4 * first);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
            for (int part = 0; part < PARTS; part++) {
                int8x16_t w = codes(p, first + i, part);
#pragma GCC unroll 4
                for (int j = 0; j < tokens; j++)
                    sum[part][j] = dot(sum[part][j], w, b[j], i);
            }
    }
}

void lm_strips_init_dotprod(lm_kernels *k)
{
    init_strips(k);
}
