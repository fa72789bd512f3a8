#include "kernels/x86/avx512/levels_avx512.h"

void lm_kernels_init_avx512(lm_kernels *k)
{
    lm_exact_init_avx512(k);
    if (k->cpu & LM_CPU_AVX512_VNNI)
        lm_strips_init_avx512vnni(k);
}
