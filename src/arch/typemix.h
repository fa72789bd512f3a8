/* typemix.h - what llama.cpp's quantiser knows of architectures, for lm_choose_type. `arch`: as general.architecture says it. */
#ifndef LM_ARCH_TYPEMIX_H
#define LM_ARCH_TYPEMIX_H

#include <stdbool.h>
#include <stdint.h>

/* Fewer of its layers are kept in finer types. */
bool lm_mixture_is_coarse(const char *arch);

/* The shapes that it calls 70B, whose values are few for their queries. */
bool lm_mixture_is_big(const char *arch, uint32_t n_layers, uint32_t n_heads, uint32_t n_kv_heads);

#endif
