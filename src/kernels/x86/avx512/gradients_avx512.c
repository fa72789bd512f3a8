/* gradients_avx512.c - the kernels of training in vectors of sixteen. */
#define LANES        16
#define STRIP        4
#define GRADIENTS_INIT lm_gradient_kernels_init_avx512
#include "kernels/gradient_lanes.h"
