/* float_lanes.h - vectors of floats as wide as the instruction set that a file is compiled for, for kernels
 * that are written once. Products and sums are not fused: the results are the same on every level. */
#ifndef LM_KERNELS_FLOAT_LANES_H
#define LM_KERNELS_FLOAT_LANES_H

#include <stdint.h>

#ifdef __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif

typedef float   float_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t int_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINED static inline __attribute__((always_inline))

INLINED float_lanes *lanes_at(float *p)
{
    return (float_lanes *)(void *)p;
}

INLINED float_lanes load_lanes(const float *p)
{
    return *(const float_lanes *)(const void *)p;
}

#endif
