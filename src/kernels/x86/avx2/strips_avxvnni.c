/* strips_avxvnni.c - the products of strips_256.h by vpdpbusd on 256 bits.
 *
 * Compiled once for each encoding: VEX is AVX-VNNI's, EVEX that of AVX512-VNNI with AVX512VL. Nothing else differs, so a
 * processor with the second alone runs, and tests, this level instruction for instruction. */
#ifdef VNNI_EVEX
#define DOT "vpdpbusd"
#define INIT lm_strips_init_avxvnni_evex
#else
#define DOT "%{vex%} vpdpbusd"
#define INIT lm_strips_init_avxvnni
#endif
#define LEVEL "avxvnni"
#define PLANES false
enum { TOGETHER = 6 };

#include "kernels/x86/avx2/strips_256.h"

INLINE void dots(const traits t, const source *s, const uint8_t *const *x, const int half, const int tokens, __m256i sum[2][TOGETHER])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        sum[0][j] = sum[1][j] = start_of(t, x[j], half);
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        __m256i w0 = weights(t, s, 0, v, 0), w1 = weights(t, s, 0, v, 1);
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++) {
            __m256i b = four(x[j] + 4 * v);
            __asm__(DOT " %2, %1, %0" : "+x"(sum[0][j]) : "x"(w0), "x"(b));
            __asm__(DOT " %2, %1, %0" : "+x"(sum[1][j]) : "x"(w1), "x"(b));
        }
    }
}

void INIT(lm_kernels *k)
{
    init_strips(k);
}
