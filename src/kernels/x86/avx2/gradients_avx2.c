/* gradients_avx2.c - the kernels of training in vectors of eight. */
#define LANES        8
#define STRIP        2
#define GRADIENTS_INIT lm_gradient_kernels_init_avx2
#include "kernels/gradient_lanes.h"
