/* init_sse41.c - enter the kernels of SSE4.1 into the tables. */
#include "kernels/x86/avx2/levels_avx2.h"

void lm_kernels_init_sse41(lm_kernels *k)
{
    lm_row_kernels_init_sse41(&k->row);
    lm_attention_kernels_init_sse41(&k->attention);
    lm_exact_init_sse41(k);
    lm_floats_init_sse41(k);
    lm_strips_init_sse41(k);
}
