/* gradients_ref.c - the training kernels without vector instructions. */
#define LANES        4
#define STRIP        1
#define GRADIENTS_INIT lm_gradient_kernels_init_ref
#include "kernels/gradient_lanes.h"
