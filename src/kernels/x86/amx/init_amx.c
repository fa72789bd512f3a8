#include "kernels/x86/amx/levels_amx.h"

void lm_kernels_init_amx(lm_kernels *k)
{
    lm_strips_init_amx(k);
    lm_bf16_init_amx(k);
    /* Processors that have tiles take two cycles for a vdpbf16ps: float32 is faster there, and nearer. */
    k->attention_fast = k->attention;
}
