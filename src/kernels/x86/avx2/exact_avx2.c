/* exact_avx2.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32, then
 * multiplied with all rows of x.
 *
 * One product is one accumulator of eight lanes over k in rising order, the tail padded with zeros, the lanes added as a
 * tree: the same whatever tile it is computed in. */
#include <immintrin.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"

enum { ROWS = 4 };                   /* of the matrix at a time; with three rows of x, twelve accumulators */

static uint64_t f32_bytes(uint64_t cols)
{
    return (cols * sizeof(float) + 63) & ~UINT64_C(63);
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return ROWS * f32_bytes(cols);
}

/* y[i][j] = w[i] . x[j] */
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x, uint64_t cols,
                                                       const int rows, const int tokens, float y[ROWS][3])
{
    __m256 acc[ROWS][3];
    uint64_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
            acc[i][j] = _mm256_setzero_ps();

    for (; k < cols; k += 8) {
        uint64_t left = cols - k;
        __m256 b[3];
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
            b[j] = left >= 8 ? _mm256_loadu_ps(x[j] + k) : vec_load_tail(x[j] + k, left);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            __m256 a = left >= 8 ? _mm256_loadu_ps(w[i] + k) : vec_load_tail(w[i] + k, left);
#pragma GCC unroll 3
            for (int j = 0; j < tokens; j++)
                acc[i][j] = _mm256_fmadd_ps(a, b[j], acc[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
            y[i][j] = vec_sum(acc[i][j]);
}

static void tile_of(const float *const *w, const float *const *x, uint64_t cols, int rows, int tokens, float y[ROWS][3])
{
    if (rows == ROWS) {
        switch (tokens) {
        case 3: tile(w, x, cols, ROWS, 3, y); return;
        case 2: tile(w, x, cols, ROWS, 2, y); return;
        default: tile(w, x, cols, ROWS, 1, y); return;
        }
    }
    for (int i = 0; i < rows; i++) {
        float one[ROWS][3];
        switch (tokens) {
        case 3: tile(w + i, x, cols, 1, 3, one); break;
        case 2: tile(w + i, x, cols, 1, 2, one); break;
        default: tile(w + i, x, cols, 1, 1, one); break;
        }
        for (int j = 0; j < tokens; j++)
            y[i][j] = one[0][j];
    }
}

/* Rows [o, o + rows) of the matrix against every row of x. */
static void panel(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w)
{
    for (uint64_t t = 0; t < a->n; t += 3) {
        int tokens = a->n - t < 3 ? (int)(a->n - t) : 3;
        const float *x[3];
        float y[ROWS][3];
        for (int j = 0; j < tokens; j++)
            x[j] = (const void *)((const uint8_t *)a->x + (t + (uint64_t)j) * a->x_stride);
        tile_of(w, x, a->cols, rows, tokens, y);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < tokens; j++)
                lm_matmul_store(a, t + (uint64_t)j, o + (uint64_t)i, y[i][j]);
    }
}

static void run(const lm_matmul_args *a, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    void (*unpack)(float *, const void *, size_t) = lm_unpack_avx2(type);

    for (uint64_t o = a->first; o < a->last; o += ROWS) {
        int rows = a->last - o < ROWS ? (int)(a->last - o) : ROWS;
        const float *w[ROWS];
        for (int i = 0; i < rows; i++) {
            const void *stored = lm_stored_row(a->w, t, a->cols, o + (uint64_t)i);
            float *scratch = (float *)a->scratch + (uint64_t)i * (f32_bytes(a->cols) / sizeof(float));
            w[i] = stored;
            if (type != LM_F32) {
                unpack(scratch, stored, a->cols);
                w[i] = scratch;
            }
        }
        panel(a, o, rows, w);
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
        lm_unpack_avx2(id)(dst, lm_stored_row(w, lm_dtype_of(id), cols, row), cols);               \
    }                                                                                              \
    static const lm_matmul exact_##word = {                                                        \
        .name = #word " avx2",                                                                     \
        .x = &lm_activation_f32,                                                                   \
        .row_group = ROWS,                                                                         \
        .scratch_bytes = scratch_bytes,                                                            \
        .run = run_##word,                                                                         \
        .row = row_##word,                                                                         \
    };
LM_MATRIX_TYPES(X)
#undef X

void lm_exact_init_avx2(lm_kernels *k)
{
#define X(id, word) k->exact[id] = k->fast[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}
