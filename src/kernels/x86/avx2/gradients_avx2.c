/* gradients_avx2.c - the training kernels in vectors of eight. */
#include <immintrin.h>

#define LANES        8
#define STRIP        2
#define GRADIENTS_INIT lm_gradient_kernels_init_avx2
#define FUSED(a, b, c)   (vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#include "kernels/gradient_lanes.h"
