/* vec_256.h - vectors of 256 bits: those of AVX2 or, in the files that are compiled once more with SSE41
 * defined, pairs of 128 bits. */
#ifndef LM_KERNELS_VEC_256_H
#define LM_KERNELS_VEC_256_H

#ifdef SSE41
#include "kernels/x86/sse41/names_sse41.h"
#include "kernels/x86/sse41/pairs_128.h"
#define NAME_256 "sse41"
enum { REGISTERS_256 = 8 };
#else
#include <immintrin.h>
#define NAME_256 "avx2"
enum { REGISTERS_256 = 16 };
#endif

#endif
