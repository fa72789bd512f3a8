/* kernels.c - fill the tables of kernels: plain C first, then each instruction set that is detected and
 * allowed, from the lowest up. */
#include "kernels/kernels.h"

void lm_kernels_init(lm_kernels *k, lm_cpu cpu)
{
    *k = (lm_kernels){ .cpu = cpu };
    lm_kernels_init_ref(k);
#if defined(__x86_64__)
    if (cpu & LM_CPU_SSE41)
        lm_kernels_init_sse41(k);
    if (cpu & LM_CPU_AVX2)
        lm_kernels_init_avx2(k);
    if ((cpu & LM_CPU_AVX512) && (cpu & LM_CPU_AVX2))
        lm_kernels_init_avx512(k);
    if (cpu & LM_CPU_AMX)
        lm_kernels_init_amx(k);
#elif defined(__aarch64__)
    if (cpu & LM_CPU_NEON)
        lm_kernels_init_neon(k);
#endif
    if (!k->attention_fast.run)
        k->attention_fast = k->attention;
}
