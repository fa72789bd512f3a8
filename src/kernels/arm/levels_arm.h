/* levels_arm.h - the groups of kernels that lm_kernels_init_neon consists of. */
#ifndef LM_KERNELS_LEVELS_ARM_H
#define LM_KERNELS_LEVELS_ARM_H

#include "kernels/levels.h"

void lm_exact_init_neon(lm_kernels *k);
void lm_strips_init_neon(lm_kernels *k);
void lm_strips_init_dotprod(lm_kernels *k);
void lm_strips_init_i8mm(lm_kernels *k);

/* Rows of q8_rows.h. */
extern const lm_activation lm_activation_q8_arm;

#endif
