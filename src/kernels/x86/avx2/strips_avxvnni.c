/* strips_avxvnni.c - the products of strips_256.h by vpdpbusd on 256 bits.
 *
 * Compiled once per encoding: VEX for AVX-VNNI, EVEX for AVX512-VNNI with AVX512VL. Nothing else differs, so
 * a processor that has only the latter runs, and tests, the same instructions. */
#ifdef VNNI_EVEX
#define DOT "vpdpbusd"
#define LEVEL avxvnni_evex
#else
#define DOT "%{vex%} vpdpbusd"
#define LEVEL avxvnni
#endif
#define APART(t) false
#define PLANES false
#define PANELS_FROM MUCH
enum { TOGETHER = 6 };

#define TILES(word, ...)                                                                             \
    TILE(word, 1, 1, __VA_ARGS__) TILE(word, 1, 2, __VA_ARGS__) TILE(word, 1, 3, __VA_ARGS__)        \
    TILE(word, 1, 4, __VA_ARGS__) TILE(word, 1, 5, __VA_ARGS__) TILE(word, 1, 6, __VA_ARGS__)
#define TILES_OF(word)                                                                               \
    { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3, tile_##word##_1_4, tile_##word##_1_5, \
      tile_##word##_1_6 }
#define LAST_TILES(word, ...) TILE(word, 1, 5, __VA_ARGS__) TILE(word, 1, 6, __VA_ARGS__)
#define LAST_OF(word)         { [4] = tile_##word##_1_5, tile_##word##_1_6 }

#include "kernels/x86/avx2/strips_256.h"

INLINE __m256i with_dot(__m256i sum, __m256i w, __m256i x)
{
    __asm__(DOT " %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
    return sum;
}

/* A single row uses two sums per output, because each product depends on the previous one of its sum. */
INLINE void dots(const traits t, const uint8_t *const *p, const uint8_t *const *x, const int half,
                 const int strips, const int tokens, __m256i sum[2][TOGETHER][2])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;
    __m256i odd[2][2];

#pragma GCC unroll 2
    for (int s = 0; s < strips; s++) {
        odd[s][0] = odd[s][1] = _mm256_setzero_si256();
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            sum[s][j][0] = sum[s][j][1] = start_of(t, x[j], half);
    }
#pragma GCC unroll 8
    for (int v = from; v < to; v++)
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++) {
            __m256i w[2] = { weights(t, p[s], 0, v, 0), weights(t, p[s], 0, v, 1) };
#pragma GCC unroll 6
            for (int j = 0; j < tokens; j++) {
                __m256i columns = four(x[j] + 4 * v);
#pragma GCC unroll 2
                for (int part = 0; part < 2; part++)
                    if (tokens == 1 && v % 2)
                        odd[s][part] = with_dot(odd[s][part], w[part], columns);
                    else
                        sum[s][j][part] = with_dot(sum[s][j][part], w[part], columns);
            }
        }
#pragma GCC unroll 2
    for (int s = 0; s < strips && tokens == 1; s++)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++)
            sum[s][0][part] = _mm256_add_epi32(sum[s][0][part], odd[s][part]);
}
