/* gradients_avx512.c - the training kernels in vectors of sixteen. */
#include <immintrin.h>

#define LANES        16
#define STRIP        4
#define GRADIENTS_INIT lm_gradient_kernels_init_avx512
#define FUSED(a, b, c)   (vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#include "kernels/gradient_lanes.h"
