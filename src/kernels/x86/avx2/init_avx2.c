/* init_avx2.c - enter the kernels of AVX2 into the tables. */
#include "kernels/x86/avx2/levels_avx2.h"

void lm_kernels_init_avx2(lm_kernels *k)
{
    lm_row_kernels_init_avx2(&k->row);
    lm_attention_kernels_init_avx2(&k->attention);
    lm_exact_init_avx2(k);
    lm_floats_init_avx2(k);
    lm_strips_init_avx2(k);
    if (k->cpu & LM_CPU_AVXVNNI_VEX)
        lm_strips_init_avxvnni(k);
    else if (k->cpu & LM_CPU_AVXVNNI)
        lm_strips_init_avxvnni_evex(k);
}
