/* epilogue_avx512.h - write the sums of a tile to y, with bias, scale and `add` applied: sixteen outputs of a
 * few rows. */
#ifndef LM_KERNELS_EPILOGUE_AVX512_H
#define LM_KERNELS_EPILOGUE_AVX512_H

#include <immintrin.h>

#include "kernels/strips.h"

/* Prefetch the memory that the epilogue will touch, at the start of a tile: rows of y and `add` are far apart
 * and rarely in a cache. */
static inline void lm_prefetch_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t o)
{
    for (uint64_t j = 0; j < tokens; j++) {
        __asm__ volatile("prefetchw %0" : : "m"(a->y[(r + j) * a->y_stride + o]));
        if (a->add && a->add != a->y)
            _mm_prefetch((const char *)(a->add + (r + j) * a->add_stride + o), _MM_HINT_T1);
    }
}

/* Store outputs o onwards of rows [r, r + tokens); the last strip may have fewer than sixteen. */
static inline void lm_put_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t o,
                               const __m512 *rows)
{
    const __mmask16 lanes = (__mmask16)(a->last - o < LM_STRIP_ROWS ? (1u << (a->last - o)) - 1 : 0xffffu);
    const __m512 scale = _mm512_set1_ps(a->scale),
                 bias = a->bias ? _mm512_maskz_loadu_ps(lanes, a->bias + o) : _mm512_setzero_ps();
    const float *add = a->add ? a->add + r * a->add_stride + o : NULL;
    float *y = a->y + r * a->y_stride + o;

    for (uint64_t j = 0; j < tokens; j++, y += a->y_stride) {
        __m512 v = a->bias ? _mm512_add_ps(rows[j], bias) : rows[j];
        v = _mm512_mul_ps(v, scale);
        if (add)
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, add + j * a->add_stride));
        _mm512_mask_storeu_ps(y, lanes, v);
    }
}

#endif
