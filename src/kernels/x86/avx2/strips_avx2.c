/* strips_avx2.c - the products of strips_256.h without a byte dot product: vpmaddubsw adds pairs in sixteen bits, which are
 * widened as seldom as the type's largest code allows. Bytes above 127 would overflow even a pair: they are two planes. */
#define LEVEL "avx2"
#define PLANES true
enum { TOGETHER = 3 };

#include "kernels/x86/avx2/strips_256.h"

/* How many vectors' pairs fit in sixteen bits: activations are at most 127 (in magnitude), a pair at most 2 * 127 * top. */
INLINE int vectors_until_wide(const traits t)
{
    return t.top <= 15 || in_planes(t) ? 8 : t.top <= 31 ? 4 : t.top <= 63 ? 2 : 1;
}

/* Written out because the compiler would make a tree of the sums, and spill its leaves. */
INLINE __m256i add16(__m256i a, __m256i b)
{
    __asm__("vpaddw %1, %0, %0" : "+x"(a) : "x"(b));
    return a;
}

/* `count` vectors whose pairs are added in sixteen bits, times the place of their plane. */
INLINE void widened(const traits t, const source *s, const uint8_t *const *x, const int which, const int first, const int count,
                    const int tokens, __m256i sum[2][TOGETHER])
{
    const __m256i place = _mm256_set1_epi16(which ? 16 : 1);
    __m256i pairs16[2][TOGETHER];

#pragma GCC unroll 8
    for (int v = first; v < first + count; v++) {
        __m256i w0 = weights(t, s, which, v, 0), w1 = weights(t, s, which, v, 1);
#pragma GCC unroll 3
        for (int j = 0; j < tokens; j++) {
            __m256i b = four(x[j] + 4 * v), p0 = _mm256_maddubs_epi16(w0, b), p1 = _mm256_maddubs_epi16(w1, b);
            pairs16[0][j] = v == first ? p0 : add16(pairs16[0][j], p0);
            pairs16[1][j] = v == first ? p1 : add16(pairs16[1][j], p1);
        }
    }
#pragma GCC unroll 3
    for (int j = 0; j < tokens; j++) {
        sum[0][j] = _mm256_add_epi32(sum[0][j], _mm256_madd_epi16(pairs16[0][j], place));
        sum[1][j] = _mm256_add_epi32(sum[1][j], _mm256_madd_epi16(pairs16[1][j], place));
    }
}

/* Bytes with a sign as they are: it moves to x. Fewer unpackings than planes, more products. */
INLINE void signed_dots(const traits t, const source *s, const uint8_t *const *x, const int from, const int to, const int tokens,
                        __m256i sum[2][TOGETHER])
{
    const __m256i ones = _mm256_set1_epi16(1), sign = _mm256_set1_epi8((char)0x80);

#pragma GCC unroll 8
    for (int v = from; v < to; v++)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++) {
            __m256i w = _mm256_xor_si256(t.codes(s->p + t.numbers, v, part), sign), size = _mm256_abs_epi8(w);
#pragma GCC unroll 3
            for (int j = 0; j < tokens; j++) {
                __m256i p = _mm256_maddubs_epi16(size, _mm256_sign_epi8(four(x[j] + 4 * v), w));
                sum[part][j] = _mm256_add_epi32(sum[part][j], _mm256_madd_epi16(p, ones));
            }
        }
}

INLINE void half_dots(const traits t, const source *s, const uint8_t *const *x, const int which, const int from, const int count,
                      const int tokens, __m256i sum[2][TOGETHER])
{
    const int most = vectors_until_wide(t), together = most < count ? most : count;

    widened(t, s, x, which, from, together, tokens, sum);
    if (together < count)
        widened(t, s, x, which, from + together, together, tokens, sum);
    if (2 * together < count) {
        widened(t, s, x, which, from + 2 * together, together, tokens, sum);
        widened(t, s, x, which, from + 3 * together, together, tokens, sum);
    }
}

INLINE void dots(const traits t, const source *s, const uint8_t *const *blocks, const int half, const int tokens, __m256i sum[2][TOGETHER])
{
    const uint8_t *x[TOGETHER];

#pragma GCC unroll 3
    for (int j = 0; j < tokens; j++) {
        x[j] = blocks[j];
        sum[0][j] = sum[1][j] = in_planes(t) && !s->u ? _mm256_setzero_si256() : start_of(t, x[j], half);
    }
    if (in_planes(t) && !s->u) {
        signed_dots(t, s, x, t.halves == 2 ? 4 * half : 0, t.halves == 2 ? 4 * half + 4 : 8, tokens, sum);
        return;
    }
    for (int which = 0; which < (in_planes(t) ? 2 : 1); which++) {
        for (int j = 0; which && j < tokens; j++)
            __asm__("" : "+r"(x[j]));                /* load again what would be spilled */
        if (t.halves == 2) {
            half_dots(t, s, x, which, 4 * half, 4, tokens, sum);
        } else if (vectors_until_wide(t) == 8) {
            widened(t, s, x, which, 0, 8, tokens, sum);
        } else {
            half_dots(t, s, x, which, 0, 4, tokens, sum);
            half_dots(t, s, x, which, 4, 4, tokens, sum);
        }
    }
}

void lm_strips_init_avx2(lm_kernels *k)
{
    init_strips(k);
}
