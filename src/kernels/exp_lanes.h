/* exp_lanes.h - the exponential of every lane of a vector, for vectors of any width. */
#ifndef LM_KERNELS_EXP_LANES_H
#define LM_KERNELS_EXP_LANES_H

#include <stdint.h>

/* Define `name`: e^x as a power of two times a polynomial of the remainder (Cephes' expf); 0 below the
 * smallest normal number. `ints`: the vector of as many int32_t; fused(a, b, c): a b + c. */
#define LM_EXP_LANES(name, floats, ints, fused)                                                             \
    __attribute__((always_inline)) static inline floats name(floats x)                                      \
    {                                                                                                       \
        const floats low = -87.33654f - (floats){ 0 }, high = 88.37626f - (floats){ 0 };                    \
        ints         tiny = x < low, kept;                                                                  \
        floats       n, r, p, scale;                                                                        \
                                                                                                            \
        x = (floats)(((ints)x & (x <= high)) | ((ints)high & (x > high)) | ((ints)x & (x != x)));           \
        x = (floats)(((ints)x & ~tiny) | ((ints)low & tiny));                                               \
        n = x * 1.44269504f;                                                                                \
        n = __builtin_convertvector(                                                                        \
            __builtin_convertvector(n + (floats)(((ints)n & INT32_MIN) | (ints)(0.5f - (floats){ 0 })),     \
                                    ints),                                                                  \
            floats);                                                                                        \
        r = fused(n, -0.693359375f - (floats){ 0 }, x);                                                     \
        r = fused(n, 2.12194440e-4f - (floats){ 0 }, r);                                                    \
        p = 1.9875691500e-4f - (floats){ 0 };                                                               \
        p = fused(p, r, 1.3981999507e-3f - (floats){ 0 });                                                  \
        p = fused(p, r, 8.3334519073e-3f - (floats){ 0 });                                                  \
        p = fused(p, r, 4.1665795894e-2f - (floats){ 0 });                                                  \
        p = fused(p, r, 1.6666665459e-1f - (floats){ 0 });                                                  \
        p = fused(p, r, 5.0000001201e-1f - (floats){ 0 });                                                  \
        p = fused(p, r * r, r) + 1.0f;                                                                      \
        kept  = (__builtin_convertvector(n, ints) + 127) << 23;                                             \
        scale = (floats)kept;                                                                               \
        return (floats)((ints)(p * scale) & ~tiny);                                                         \
    }

#endif
