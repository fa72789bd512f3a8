/* strips_avx2.c - the products of strips_256.h without a byte dot product: vpmaddubsw adds pairs in sixteen
 * bits, which are widened as rarely as the type's largest code allows. Bytes above 127 could overflow even
 * one pair, so they are split into two planes. */
#define APART(t) ((t).top == 31)
#define PLANES true
#define PANELS_FROM LITTLE
#ifdef SSE41
#define LEVEL sse41
enum { TOGETHER = 2 };

#define TILES(word, ...)      TILE(word, 1, 1, __VA_ARGS__) TILE(word, 1, 2, __VA_ARGS__)
#define TILES_OF(word)        { tile_##word##_1_1, tile_##word##_1_2 }
#define LAST_TILES            TILES
#define LAST_OF               TILES_OF
#else
#define LEVEL avx2
enum { TOGETHER = 3 };

#define TILES(word, ...)      TILE(word, 1, 1, __VA_ARGS__) TILE(word, 1, 2, __VA_ARGS__) \
    TILE(word, 1, 3, __VA_ARGS__)
#define TILES_OF(word)        { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3 }
#define LAST_TILES(word, ...) TILE(word, 1, 2, __VA_ARGS__) TILE(word, 1, 3, __VA_ARGS__)
#define LAST_OF(word)         { [1] = tile_##word##_1_2, tile_##word##_1_3 }
#endif

#include "kernels/x86/avx2/strips_256.h"

/* Return how many vectors of pairs can be added in sixteen bits: activations are at most 127 in magnitude, a
 * pair at most 2 * 127 * top. */
INLINE int vectors_until_wide(const traits t)
{
    return t.top <= 15 || in_planes(t) ? 8 : t.top <= 31 ? 4 : t.top <= 63 ? 2 : 1;
}

/* In assembly because the compiler would add the sums as a tree and spill its leaves. */
INLINE __m256i add16(__m256i a, __m256i b)
{
#ifdef SSE41
    __asm__("paddw %1, %0" : "+x"(a.lo) : "x"(b.lo));
    __asm__("paddw %1, %0" : "+x"(a.hi) : "x"(b.hi));
#else
    __asm__("vpaddw %1, %0, %0" : "+x"(a) : "x"(b));
#endif
    return a;
}

/* Add the pairs of `count` vectors in sixteen bits, then widen them and multiply by the weight of their
 * plane. */
INLINE void widened(const traits t, const uint8_t *const *p, const uint8_t *const *x, const int which,
                    const int first, const int count, const int strips, const int tokens,
                    __m256i sum[2][TOGETHER][2])
{
    const __m256i scale = _mm256_set1_epi16(which ? 16 : 1);
    __m256i pairs16[2][TOGETHER][2];

#pragma GCC unroll 8
    for (int v = first; v < first + count; v++)
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++) {
            __m256i w[2] = { weights(t, p[s], which, v, 0), weights(t, p[s], which, v, 1) };
#pragma GCC unroll 3
            for (int j = 0; j < tokens; j++) {
                __m256i b = four(x[j] + 4 * v);
#pragma GCC unroll 2
                for (int part = 0; part < 2; part++) {
                    __m256i q = _mm256_maddubs_epi16(w[part], b);
                    pairs16[s][j][part] = v == first ? q : add16(pairs16[s][j][part], q);
                }
            }
        }
#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++)
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++)
                sum[s][j][part] = _mm256_add_epi32(sum[s][j][part],
                                                   _mm256_madd_epi16(pairs16[s][j][part], scale));
}

/* Multiply signed bytes directly by moving the sign to x. This takes fewer unpackings than planes do, but
 * more products. */
INLINE void signed_dots(const traits t, const uint8_t *const *p, const uint8_t *const *x, const int from,
                        const int to, const int strips, const int tokens, __m256i sum[2][TOGETHER][2])
{
    const __m256i ones = _mm256_set1_epi16(1), sign = _mm256_set1_epi8((char)0x80);

#pragma GCC unroll 8
    for (int v = from; v < to; v++)
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++)
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++) {
                __m256i w = _mm256_xor_si256(weights(t, p[s], 0, v, part), sign), size = _mm256_abs_epi8(w);
#pragma GCC unroll 3
                for (int j = 0; j < tokens; j++) {
                    __m256i q = _mm256_maddubs_epi16(size, _mm256_sign_epi8(four(x[j] + 4 * v), w));
                    sum[s][j][part] = _mm256_add_epi32(sum[s][j][part], _mm256_madd_epi16(q, ones));
                }
            }
}

INLINE void plane_dots(const traits t, const uint8_t *const *p, const uint8_t *const *x, const int which,
                       const int from, const int to, const int strips, const int tokens,
                       __m256i sum[2][TOGETHER][2])
{
    const int max = vectors_until_wide(t), together = max < to - from ? max : to - from;

#pragma GCC unroll 8
    for (int v = from; v < to; v += together)
        widened(t, p, x, which, v, together, strips, tokens, sum);
}

INLINE void dots(const traits t, const uint8_t *const *p, const uint8_t *const *blocks, const int half,
                 const int strips, const int tokens, __m256i sum[2][TOGETHER][2])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;
    const bool moves_signs = in_planes(t) && t.codes;
    const uint8_t *x[TOGETHER];

#pragma GCC unroll 3
    for (int j = 0; j < tokens; j++) {
        x[j] = blocks[j];
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++)
            sum[s][j][0] = sum[s][j][1] = moves_signs ? _mm256_setzero_si256() : start_of(t, x[j], half);
    }
    if (moves_signs) {
        signed_dots(t, p, x, from, to, strips, tokens, sum);
        return;
    }
    plane_dots(t, p, x, 0, from, to, strips, tokens, sum);
    if (!in_planes(t))
        return;
#pragma GCC unroll 3
    for (int j = 0; j < tokens; j++)
        __asm__("" : "+r"(x[j]));                    /* reload these instead of spilling them */
    plane_dots(t, p, x, 1, from, to, strips, tokens, sum);
}
