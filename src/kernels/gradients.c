/* gradients.c - choose the training kernels of an instruction set. */
#include "kernels/gradients.h"

uint64_t lm_text_attention_scratch(uint64_t rows, uint64_t k_dim, uint64_t v_dim)
{
    enum { TILES = 3, QUERY_TILE = 16 };

    return (((rows + 63) & ~UINT64_C(63)) * (k_dim + v_dim + TILES * QUERY_TILE) + 64) * sizeof(float);
}

void lm_gradient_kernels_init(lm_gradient_kernels *k, lm_cpu cpu)
{
    lm_gradient_kernels_init_ref(k);
#if defined(__x86_64__)
    if (cpu & LM_CPU_AVX2)
        lm_gradient_kernels_init_avx2(k);
    if ((cpu & LM_CPU_AVX512) && (cpu & LM_CPU_AVX2))
        lm_gradient_kernels_init_avx512(k);
#else
    (void)cpu;
#endif
}
