#include "kernels/kernels.h"

void lm_kernels_init(lm_kernels *k, lm_cpu cpu)
{
    *k = (lm_kernels){ .cpu = cpu };
    lm_kernels_init_ref(k);
}
