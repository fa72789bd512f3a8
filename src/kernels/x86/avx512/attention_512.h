/* attention_512.h - shared by the AVX-512 attention kernels: conversion of products to scores, rescaling to a
 * larger maximum, completion of a query. */
#ifndef LM_KERNELS_ATTENTION_512_H
#define LM_KERNELS_ATTENTION_512_H

#include <immintrin.h>

#include "kernels/x86/attention_pages.h"
#include "kernels/x86/avx512/vec_avx512.h"

/* Round to the nearest bfloat16, ties to even. */
static inline __m512 to_bf16(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x),
            odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Convert the products of sixteen keys from lane `at` on to scores; -infinity for keys that are not
 * visible. */
INLINE __m512 score(const lm_attention_args *a, __m512 s, uint32_t g, sight see, uint32_t at)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i j = _mm512_add_epi32(lane, _mm512_set1_epi32((int)at));

    if (a->slopes && a->slopes_half) {
        __m512 key = to_bf16(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_set1_epi32((int)see.start), j)));
        s = _mm512_add_ps(s, to_bf16(_mm512_mul_ps(_mm512_set1_ps(a->slopes[g]), key)));
    }
    s = _mm512_mul_ps(s, _mm512_set1_ps(a->scale));
    if (a->softcap > 0.0f)
        s = _mm512_mul_ps(_mm512_set1_ps(a->softcap),
                          vec512_tanh(_mm512_div_ps(s, _mm512_set1_ps(a->softcap))));
    if (a->slopes && !a->slopes_half) {
        __m512 back = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32((int)see.distance), j));
        s = _mm512_sub_ps(s, _mm512_mul_ps(_mm512_set1_ps(a->slopes[g]), back));
    }
    __mmask16 seen = _mm512_cmpge_epi32_mask(j, _mm512_set1_epi32((int)see.from)) &
                     _mm512_cmplt_epi32_mask(j, _mm512_set1_epi32((int)see.to));
    return _mm512_mask_blend_ps(seen, _mm512_set1_ps(-INFINITY), s);
}

/* Rescale the running sum and output to a larger maximum. */
static inline void raise_max(running *s, float max, float *out, uint32_t width)
{
    if (!(max > s->max))
        return;
    if (s->max == -INFINITY) {                   /* everything is still zero */
        s->max = max;
        return;
    }
    __m512 shrink = vec512_exp(_mm512_set1_ps(s->max - max));
    s->max = max;
    s->sum *= _mm512_cvtss_f32(shrink);
    for (uint32_t i = 0; i < width; i += 16) {
        __mmask16 lanes = vec512_lanes(width - i);
        _mm512_mask_storeu_ps(out + i, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, out + i), shrink));
    }
}

/* Merge a query's partial result over one more range into *s and out. */
static inline void join(running *s, float *out, const running *partial, const float *values, uint32_t width)
{
    float max = s->max > partial->max ? s->max : partial->max;
    __m512 shrink = vec512_exp(_mm512_set1_ps(s->max - max)),
           shrink_partial = vec512_exp(_mm512_set1_ps(partial->max - max));

    s->max = max;
    s->sum = s->sum * _mm512_cvtss_f32(shrink) + partial->sum * _mm512_cvtss_f32(shrink_partial);
    for (uint32_t i = 0; i < width; i += 16) {
        __mmask16 lanes = vec512_lanes(width - i);
        __m512 y = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, out + i), shrink);
        _mm512_mask_storeu_ps(out + i, lanes,
                              _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, values + i), shrink_partial, y));
    }
}

static inline void finish(const lm_attention_args *a, running *s, uint32_t g, float *out)
{
    uint32_t width = a->kv->v_dim;

    if (a->sinks) {
        raise_max(s, a->sinks[g], out, width);
        s->sum += _mm512_cvtss_f32(vec512_exp(_mm512_set1_ps(a->sinks[g] - s->max)));
    }
    for (uint32_t i = 0; i < width; i += 16) {
        __mmask16 lanes = vec512_lanes(width - i);
        _mm512_mask_storeu_ps(out + i, lanes,
                              _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, out + i), _mm512_set1_ps(s->sum)));
    }
}

#endif
