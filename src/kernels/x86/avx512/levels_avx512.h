/* levels_avx512.h - the families behind lm_kernels_init_avx512. */
#ifndef LM_KERNELS_LEVELS_AVX512_H
#define LM_KERNELS_LEVELS_AVX512_H

#include "kernels/levels.h"

/* Rows of q8_rows.h, packed to the bits of lm_q8_pack; needs VNNI. */
extern const lm_activation lm_activation_q8_avx512;

void lm_row_kernels_init_avx512(lm_row_kernels *k);
void lm_exact_init_avx512(lm_kernels *k);
void lm_floats_init_avx512(lm_kernels *k);
void lm_attention_kernels_init_avx512(lm_attention_kernels *k);
void lm_attention_kernels_init_avx512bf16(lm_attention_kernels *k);      /* over those of avx512: pages are the same */
void lm_strips_init_avx512vnni(lm_kernels *k);
/* What a processor with LM_CPU_INTEL has of a type that lm_strip_of knows. */
const lm_matmul *lm_strips_two_ports(lm_dtype type);
void lm_strips_init_avx512bf16(lm_kernels *k);

#endif
