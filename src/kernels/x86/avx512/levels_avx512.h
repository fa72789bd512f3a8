/* levels_avx512.h - the groups of kernels that lm_kernels_init_avx512 consists of. */
#ifndef LM_KERNELS_LEVELS_AVX512_H
#define LM_KERNELS_LEVELS_AVX512_H

#include "kernels/levels.h"

/* Rows of q8_rows.h, bit-identical to those of lm_q8_pack; needs VNNI. */
extern const lm_activation lm_activation_q8_avx512;

void lm_row_kernels_init_avx512(lm_row_kernels *k);
void lm_exact_init_avx512(lm_kernels *k);
void lm_floats_init_avx512(lm_kernels *k);
void lm_attention_kernels_init_avx512(lm_attention_kernels *k);
/* on top of those of avx512: pages are the same */
void lm_attention_kernels_init_avx512bf16(lm_attention_kernels *k);
void lm_strips_init_avx512vnni(lm_kernels *k);
/* Return the kernel of a processor with LM_CPU_INTEL for a type that has strips; NULL for other types. */
const lm_matmul *lm_strips_two_ports(lm_dtype type);
void lm_strips_init_avx512bf16(lm_kernels *k);

#endif
