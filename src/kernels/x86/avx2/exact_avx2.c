/* exact_avx2.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32,
 * then multiplied with all rows of x.
 *
 * One product has one accumulator of eight lanes over k in ascending order, with the tail padded with zeros;
 * the lanes are added as a tree. The result does not depend on the tile. */

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"

/* a tile; rows of the matrix unpacked at a time */
enum { ROWS = REGISTERS_256 / 4, TOKENS = 3, GROUP = 16 };

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
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x,
                                                       uint64_t cols, const int rows, const int tokens,
                                                       float y[ROWS][TOKENS])
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

static inline __attribute__((always_inline)) void tile_rows(const float *const *w, const float *const *x,
                                                            uint64_t cols, const int rows, int tokens,
                                                            float y[ROWS][TOKENS])
{
    switch (tokens) {
    case 3: tile(w, x, cols, rows, 3, y); break;
    case 2: tile(w, x, cols, rows, 2, y); break;
    default: tile(w, x, cols, rows, 1, y);
    }
}

#define LEVEL NAME_256
#define UNPACK(id) lm_unpack_avx2(id)
#include "kernels/exact_rows.h"

void lm_exact_init_avx2(lm_kernels *k)
{
#define X(id, word) k->exact[id] = k->fast[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}
