/* init_avx512.c - enter the kernels of AVX-512 and its extensions into the tables. */
#include "kernels/x86/avx512/levels_avx512.h"

void lm_kernels_init_avx512(lm_kernels *k)
{
    lm_row_kernels_init_avx512(&k->row);
    lm_exact_init_avx512(k);
    lm_floats_init_avx512(k);
    lm_attention_kernels_init_avx512(&k->attention);
    if (k->cpu & LM_CPU_AVX512_VNNI)
        lm_strips_init_avx512vnni(k);
    k->attention_fast = k->attention;
    if (k->cpu & LM_CPU_AVX512_BF16) {
        lm_attention_kernels_init_avx512bf16(&k->attention_fast);
        lm_strips_init_avx512bf16(k);
    }
}
