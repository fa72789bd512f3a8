/* init_amx.c - enter the kernels of AMX into the tables. */
#include "kernels/x86/amx/levels_amx.h"

void lm_kernels_init_amx(lm_kernels *k)
{
    lm_strips_init_amx(k);
    lm_bf16_init_amx(k);
    /* Processors with AMX take two cycles per vdpbf16ps, so float32 is faster there, and more accurate. */
    k->attention_fast = k->attention;
}
