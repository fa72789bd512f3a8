/* typemix.h - properties of architectures that llama.cpp's quantizer uses, for lm_choose_type. `arch`: as in
 * general.architecture. */
#ifndef LM_ARCH_TYPEMIX_H
#define LM_ARCH_TYPEMIX_H

#include <stdbool.h>
#include <stdint.h>

/* Return whether fewer of its layers are kept in finer types. */
bool lm_mixture_is_coarse(const char *arch);

/* Return whether llama.cpp classifies the shape as 70B: few value heads per query head. */
bool lm_mixture_is_big(const char *arch, uint32_t n_layers, uint32_t n_heads, uint32_t n_kv_heads);

#endif
