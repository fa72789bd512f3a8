/* exact_avx512.c - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to
 * float32, then multiplied with all rows of x.
 *
 * One product has one accumulator of sixteen lanes over k in ascending order, with the tail padded with
 * zeros; the lanes are added as a tree. The result does not depend on the tile. */
#include <immintrin.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"

enum { ROWS = 4, TOKENS = 6, GROUP = 16 };      /* a tile; rows of the matrix unpacked at a time */

static inline __m512 load_tail(const float *p, uint64_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

/* Sum the sixteen lanes as a tree. */
static inline float sum(__m512 v)
{
    __m256 s = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}

/* One step of k: 16 columns of every row and token. */
#define STEP(LOAD)                                                  \
    do {                                                            \
        __m512 b[TOKENS];                                           \
        _Pragma("GCC unroll 6")                                    \
        for (int j = 0; j < tokens; j++)                            \
            b[j] = LOAD(x[j] + k);                                  \
        _Pragma("GCC unroll 4")                                     \
        for (int i = 0; i < rows; i++) {                            \
            __m512 a = LOAD(w[i] + k);                              \
            _Pragma("GCC unroll 6")                                \
            for (int j = 0; j < tokens; j++)                        \
                acc[i][j] = _mm512_fmadd_ps(a, b[j], acc[i][j]);    \
        }                                                           \
    } while (0)

/* y[i][j] = w[i] . x[j] */
static inline __attribute__((always_inline)) void tile(const float *const *w, const float *const *x,
                                                       uint64_t cols, const int rows, const int tokens,
                                                       float y[ROWS][TOKENS])
{
    __m512 acc[ROWS][TOKENS];
    uint64_t k = 0;

#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            acc[i][j] = _mm512_setzero_ps();
    for (; k + 16 <= cols; k += 16)
        STEP(_mm512_loadu_ps);
    if (k < cols) {
        uint64_t left = cols - k;
#define TAIL(p) load_tail(p, left)
        STEP(TAIL);
#undef TAIL
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            y[i][j] = sum(acc[i][j]);
}

static inline __attribute__((always_inline)) void tile_rows(const float *const *w, const float *const *x,
                                                            uint64_t cols, const int rows, int tokens,
                                                            float y[ROWS][TOKENS])
{
    switch (tokens) {
    case 6: tile(w, x, cols, rows, 6, y); break;
    case 5: tile(w, x, cols, rows, 5, y); break;
    case 4: tile(w, x, cols, rows, 4, y); break;
    case 3: tile(w, x, cols, rows, 3, y); break;
    case 2: tile(w, x, cols, rows, 2, y); break;
    default: tile(w, x, cols, rows, 1, y);
    }
}

#define LEVEL "avx512"
#define UNPACK(id) lm_unpack_avx2(id)
#include "kernels/exact_rows.h"

void lm_exact_init_avx512(lm_kernels *k)
{
#define X(id, word)                                                   \
    k->fast[id] = k->fast[id] == k->exact[id] ? &exact_##word : k->fast[id]; \
    k->exact[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}
