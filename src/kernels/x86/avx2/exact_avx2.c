/* exact_avx2.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32, then
 * multiplied with all rows of x.
 *
 * One product is one accumulator of eight lanes over k in rising order, the tail padded with zeros, the lanes added as a
 * tree: the same whatever tile it is computed in. */
#include <immintrin.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"

enum { ROWS = 4, TOKENS = 3, GROUP = 16 };      /* a tile; rows of the matrix unpacked at a time */

static uint64_t f32_bytes(uint64_t cols)
{
    return (cols * sizeof(float) + 63) & ~UINT64_C(63);
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return GROUP * f32_bytes(cols);
}

/* One step of k: 8 columns of every row and token. */
#define STEP(LOAD)                                                  \
    do {                                                            \
        __m256 b[TOKENS];                                           \
        _Pragma("GCC unroll 3")                                    \
        for (int j = 0; j < tokens; j++)                            \
            b[j] = LOAD(x[j] + k);                                  \
        _Pragma("GCC unroll 4")                                     \
        for (int i = 0; i < rows; i++) {                            \
            __m256 a = LOAD(w[i] + k);                              \
            _Pragma("GCC unroll 3")                                \
            for (int j = 0; j < tokens; j++)                        \
                acc[i][j] = _mm256_fmadd_ps(a, b[j], acc[i][j]);    \
        }                                                           \
    } while (0)

/* y[i][j] = w[i] . x[j] */
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x, uint64_t cols,
                                                       const int rows, const int tokens, float y[ROWS][TOKENS])
{
    __m256 acc[ROWS][TOKENS];
    uint64_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
            acc[i][j] = _mm256_setzero_ps();
    for (; k + 8 <= cols; k += 8)
        STEP(_mm256_loadu_ps);
    if (k < cols) {
        uint64_t left = cols - k;
#define TAIL(p) vec_load_tail(p, left)
        STEP(TAIL);
#undef TAIL
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
            y[i][j] = vec_sum(acc[i][j]);
}

static inline __attribute__((always_inline)) void tile_rows(const float *const *w, const float *const *x, uint64_t cols,
                                                            const int rows, int tokens, float y[ROWS][TOKENS])
{
    switch (tokens) {
    case 3: tile(w, x, cols, rows, 3, y); break;
    case 2: tile(w, x, cols, rows, 2, y); break;
    default: tile(w, x, cols, rows, 1, y);
    }
}

/* Up to four rows of the matrix, outputs o.., against up to three of x, rows t... */
static void block(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w, uint64_t t, int tokens,
                  const float *const *x)
{
    float y[ROWS][TOKENS];

    if (rows == ROWS)
        tile_rows(w, x, a->cols, ROWS, tokens, y);
    else
        for (int i = 0; i < rows; i++)
            tile_rows(w + i, x, a->cols, 1, tokens, y + i);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < tokens; j++)
            lm_matmul_store(a, t + (uint64_t)j, o + (uint64_t)i, y[i][j]);
}

/* Rows [o, o + rows) of the matrix against every row of x; a few rows of x stay in the first-level cache. */
static void group(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w)
{
    uint64_t tiles = (a->n + TOKENS - 1) / TOKENS;

    for (uint64_t i = 0; i < tiles; i++) {
        uint64_t t = a->n * i / tiles;
        int tokens = (int)(a->n * (i + 1) / tiles - t);
        const float *x[TOKENS];
        for (int j = 0; j < tokens; j++)
            x[j] = (const void *)((const uint8_t *)a->x + (t + (uint64_t)j) * a->x_stride);
        for (int at = 0; at < rows; at += ROWS)
            block(a, o + (uint64_t)at, rows - at < ROWS ? rows - at : ROWS, w + at, t, tokens, x);
    }
}

static void run(const lm_matmul_args *a, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    void (*unpack)(float *, const void *, size_t) = lm_unpack_avx2(type);

    for (uint64_t o = a->first; o < a->last; o += GROUP) {
        int rows = a->last - o < GROUP ? (int)(a->last - o) : GROUP;
        const float *w[GROUP];
        for (int i = 0; i < rows; i++) {
            const void *stored = lm_stored_row(a->w, t, a->cols, o + (uint64_t)i);
            float *scratch = (float *)a->scratch + (uint64_t)i * (f32_bytes(a->cols) / sizeof(float));
            w[i] = stored;
            if (type != LM_F32) {
                unpack(scratch, stored, a->cols);
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
