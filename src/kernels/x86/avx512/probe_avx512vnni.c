/* probe_avx512vnni.c - the rate of AVX-512's products of bytes, measured. */
#include "kernels/x86/probe_chains.h"

static void int8_avx512vnni(void *data, uint64_t rounds)
{
    __m512i *p = data, x = p[TWELVE], w = p[TWELVE + 1];

#define STEP(v) _mm512_dpbusd_epi32(v, x, w)
    RUN_CHAINS(TWELVE)
#undef STEP
}

void lm_probes_init_avx512vnni(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ "vpdpbusd, 512 bits", int8_avx512vnni, 128 * TWELVE };
}
