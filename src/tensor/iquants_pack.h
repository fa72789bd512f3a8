/* iquants_pack.h - pack the codebook types with importance. */
#ifndef LM_TENSOR_IQUANTS_PACK_H
#define LM_TENSOR_IQUANTS_PACK_H

#include "tensor/dtype.h"

/* Pack n elements, a multiple of 256, to `dst`; return false if the type has no codebook. `importance`: the
 * mean square of each input [n], or NULL. The sum of importance × error² is at most that of llama.cpp's
 * quantiser (tests/unit/tensor/searches.c). */
bool lm_pack_codebook(lm_dtype type, void *dst, const float *x, size_t n, const float *importance);

#endif
