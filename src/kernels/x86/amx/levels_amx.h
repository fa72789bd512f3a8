/* levels_amx.h - the groups of kernels that lm_kernels_init_amx consists of. */
#ifndef LM_KERNELS_LEVELS_AMX_H
#define LM_KERNELS_LEVELS_AMX_H

#include "kernels/levels.h"

void lm_strips_init_amx(lm_kernels *k);
void lm_bf16_init_amx(lm_kernels *k);

#endif
