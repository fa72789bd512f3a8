/* probe_avx512bf16.c - the rate of AVX-512's products in bfloat16, measured. */
#include "kernels/x86/probe_chains.h"

static void bf16_avx512(void *data, uint64_t rounds)
{
    __m512 *p = data, x = p[SIXTEEN], w = p[SIXTEEN + 1];

#define STEP(v) _mm512_dpbf16_ps(v, (__m512bh)x, (__m512bh)w)
    RUN_CHAINS(SIXTEEN)
#undef STEP
}

void lm_probes_init_avx512bf16(lm_probes *p)
{
    p->bf16 = (lm_probe_loop){ "vdpbf16ps, 512 bits", bf16_avx512, 64 * SIXTEEN };
}
