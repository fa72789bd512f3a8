#include <immintrin.h>

#include "kernels/probe.h"

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
enum { N_CHAINS = 12 };

static void int8_avx512vnni(void *data, uint64_t rounds)
{
    __m512i *p = data, x = p[N_CHAINS], w = p[N_CHAINS + 1];

#define LOAD(i) __m512i v##i = p[i];
#define STEP(i) v##i = _mm512_dpbusd_epi32(v##i, x, w);
#define STORE(i) p[i] = v##i;
    CHAINS(LOAD)
    for (uint64_t r = 0; r < rounds; r++) {
        CHAINS(STEP)
    }
    CHAINS(STORE)
#undef LOAD
#undef STEP
#undef STORE
}

void lm_probes_init_avx512vnni(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ "vpdpbusd, 512 bits", int8_avx512vnni, 128 * N_CHAINS };
}
