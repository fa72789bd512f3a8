/* exact_neon.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32,
 * then multiplied with all rows of x.
 *
 * One product has two accumulators of four lanes over k in ascending order, eight columns at a time, with one
 * column per lane in the tail; the lanes are added as a tree. The result does not depend on the tile. */
#include <arm_neon.h>

#include "kernels/arm/levels_arm.h"

enum { ROWS = 4, TOKENS = 2, GROUP = ROWS };

/* y[i][j] = w[i] . x[j] */
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x,
                                                       uint64_t cols, const int rows, const int tokens,
                                                       float y[ROWS][TOKENS])
{
    float32x4_t acc[ROWS][TOKENS][2];
    uint64_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < tokens; j++)
            acc[i][j][0] = acc[i][j][1] = vdupq_n_f32(0.0f);
    for (; k + 8 <= cols; k += 8) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
                for (int j = 0; j < tokens; j++)
                    acc[i][j][h] = vfmaq_f32(acc[i][j][h], vld1q_f32(w[i] + k + 4 * (uint64_t)h),
                                             vld1q_f32(x[j] + k + 4 * (uint64_t)h));
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < tokens; j++) {
            float s[4];
            vst1q_f32(s, vaddq_f32(acc[i][j][0], acc[i][j][1]));
            for (uint64_t at = k; at < cols; at++)
                s[at % 4] += w[i][at] * x[j][at];
            y[i][j] = (s[0] + s[2]) + (s[1] + s[3]);
        }
}

static inline __attribute__((always_inline)) void tile_rows(const float *const *w, const float *const *x,
                                                            uint64_t cols, const int rows, int tokens,
                                                            float y[ROWS][TOKENS])
{
    if (tokens == TOKENS)
        tile(w, x, cols, rows, TOKENS, y);
    else
        tile(w, x, cols, rows, 1, y);
}

#define LEVEL "neon"
#define UNPACK(id) lm_dtype_of(id)->unpack
#include "kernels/exact_rows.h"

void lm_exact_init_neon(lm_kernels *k)
{
#define X(id, word) k->exact[id] = k->fast[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}
