/* exact_neon.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32, then multiplied
 * with all rows of x.
 *
 * One product is two accumulators of four lanes over k in rising order, eight columns at a time, the tail one column a lane; the
 * lanes are added as a tree: the same whatever tile it is computed in. */
#include <arm_neon.h>

#include "kernels/arm/levels_arm.h"

enum { ROWS = 4, TOKENS = 2 };

static uint64_t f32_bytes(uint64_t cols)
{
    return (cols * sizeof(float) + 63) & ~UINT64_C(63);
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return ROWS * f32_bytes(cols);
}

/* y[i][j] = w[i] . x[j] */
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x, uint64_t cols, const int rows,
                                                       const int tokens, float y[ROWS][TOKENS])
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
                    acc[i][j][h] = vfmaq_f32(acc[i][j][h], vld1q_f32(w[i] + k + 4 * (uint64_t)h), vld1q_f32(x[j] + k + 4 * (uint64_t)h));
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

/* Rows [o, o + rows) of the matrix against every row of x. */
static void group(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w)
{
    for (uint64_t t = 0; t < a->n; t += TOKENS) {
        int tokens = a->n - t < TOKENS ? 1 : TOKENS;
        const float *x[TOKENS];
        float y[ROWS][TOKENS];
        for (int j = 0; j < tokens; j++)
            x[j] = (const void *)((const uint8_t *)a->x + (t + (uint64_t)j) * a->x_stride);
        for (int i = 0; i < rows; i += rows == ROWS ? ROWS : 1) {
            if (rows == ROWS && tokens == TOKENS)
                tile(w, x, a->cols, ROWS, TOKENS, y);
            else if (rows == ROWS)
                tile(w, x, a->cols, ROWS, 1, y);
            else if (tokens == TOKENS)
                tile(w + i, x, a->cols, 1, TOKENS, y + i);
            else
                tile(w + i, x, a->cols, 1, 1, y + i);
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < tokens; j++)
                lm_matmul_store(a, t + (uint64_t)j, o + (uint64_t)i, y[i][j]);
    }
}

static void run(const lm_matmul_args *a, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    for (uint64_t o = a->first; o < a->last; o += ROWS) {
        int rows = a->last - o < ROWS ? (int)(a->last - o) : ROWS;
        const float *w[ROWS];
        for (int i = 0; i < rows; i++) {
            const void *stored = lm_stored_row(a->w, t, a->cols, o + (uint64_t)i);
            float *scratch = (float *)a->scratch + (uint64_t)i * (f32_bytes(a->cols) / sizeof(float));
            w[i] = stored;
            if (type != LM_F32) {
                t->unpack(scratch, stored, a->cols);
                w[i] = scratch;
            }
        }
        group(a, o, rows, w);
    }
}

#define X(id, word)                                                                                \
    static void run_##word(const lm_matmul_args *a)                                                \
    {                                                                                              \
        run(a, id);                                                                                \
    }                                                                                              \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)  \
    {                                                                                              \
        (void)rows;                                                                                \
        lm_dtype_of(id)->unpack(dst, lm_stored_row(w, lm_dtype_of(id), cols, row), cols);          \
    }                                                                                              \
    static const lm_matmul exact_##word = {                                                        \
        .name = #word " neon",                                                                     \
        .x = &lm_activation_f32,                                                                   \
        .row_group = ROWS,                                                                         \
        .scratch_bytes = scratch_bytes,                                                            \
        .run = run_##word,                                                                         \
        .row = row_##word,                                                                         \
    };
LM_MATRIX_TYPES(X)
#undef X

void lm_exact_init_neon(lm_kernels *k)
{
#define X(id, word) k->exact[id] = k->fast[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}
