#include <immintrin.h>

#include "kernels/probe.h"

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
enum { N_CHAINS = 16 };

static void bf16_avx512(void *data, uint64_t rounds)
{
    float       *p = data;
    const __m512i *q = (const __m512i *)(p + 16 * N_CHAINS);
    __m512bh     x = (__m512bh)q[0], w = (__m512bh)q[1];

#define LOAD(i) __m512 v##i = _mm512_loadu_ps(p + 16 * i);
#define STEP(i) v##i = _mm512_dpbf16_ps(v##i, x, w);
#define STORE(i) _mm512_storeu_ps(p + 16 * i, v##i);
    CHAINS(LOAD)
    for (uint64_t r = 0; r < rounds; r++) {
        CHAINS(STEP)
    }
    CHAINS(STORE)
#undef LOAD
#undef STEP
#undef STORE
}

void lm_probes_init_avx512bf16(lm_probes *p)
{
    p->bf16 = (lm_probe_loop){ "vdpbf16ps, 512 bits", bf16_avx512, 64 * N_CHAINS };
}
