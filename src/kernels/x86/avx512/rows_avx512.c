/* rows_avx512.c - the kernels on rows of floats in which models spend noticeable time, sixteen lanes at a
 * time; the others remain those of AVX2.
 *
 * Sums: four accumulators of sixteen lanes over blocks of 64 in ascending order, then blocks of 16, the last
 * one padded with zeros; the accumulators are added pairwise. */
#include <float.h>
#include <math.h>

#include "kernels/convolution_lanes.h"
#include "kernels/recurrence_lanes.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/vec_avx512.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m512 load(const float *p, uint64_t left)
{
    return _mm512_maskz_loadu_ps(vec512_lanes(left), p);
}

static inline float squares(const float *x, uint64_t n)
{
    __m512 s[4] = { _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps() };
    uint64_t i = 0;

    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++) {
            __m512 v = _mm512_loadu_ps(x + i + 16 * k);
            s[k] = _mm512_fmadd_ps(v, v, s[k]);
        }
    for (; i < n; i += 16) {
        __m512 v = load(x + i, n - i);
        s[0] = _mm512_fmadd_ps(v, v, s[0]);
    }
    return vec512_sum(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}

static void rms(float *y, const float *x, const float *w, uint64_t width, float eps)
{
    __m512 r = _mm512_set1_ps(1.0f / sqrtf(squares(x, width) / (float)width + eps));
    uint64_t i = 0;

    for (; w && i + 16 <= width; i += 16)
        _mm512_storeu_ps(y + i,
                         _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), r), _mm512_loadu_ps(w + i)));
    for (; i < width; i += 16) {
        __m512 v = _mm512_mul_ps(load(x + i, width - i), r);
        _mm512_mask_storeu_ps(y + i, vec512_lanes(width - i),
                              w ? _mm512_mul_ps(v, load(w + i, width - i)) : v);
    }
}

static void add(float *y, const float *a, const float *b, float scale, uint64_t n)
{
    __m512 s = _mm512_set1_ps(scale);

    for (uint64_t i = 0; i < n; i += 16)
        _mm512_mask_storeu_ps(y + i, vec512_lanes(n - i),
                              _mm512_fmadd_ps(s, load(b + i, n - i), load(a + i, n - i)));
}

/* The functions and their limits at infinity are those of rows_avx2.c. */
INLINE __m512 activate(__m512 x, lm_act act)
{
    __m512 finite = _mm512_max_ps(_mm512_set1_ps(-FLT_MAX), x), one = _mm512_set1_ps(1.0f);

    if (act == LM_ACT_SILU)
        return _mm512_div_ps(finite, _mm512_add_ps(one, vec512_exp(_mm512_sub_ps(_mm512_setzero_ps(), x))));
    __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_mul_ps(x, _mm512_set1_ps(0.044715f)));
    __m512 tanh = vec512_tanh(_mm512_mul_ps(_mm512_set1_ps(0.79788456f), _mm512_add_ps(x, cube)));
    return _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(0.5f), finite), _mm512_add_ps(one, tanh));
}

INLINE void act_loop(float *y, const float *x, const float *up, lm_act act, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __m512 v = activate(load(x + i, n - i), act);
        _mm512_mask_storeu_ps(y + i, vec512_lanes(n - i), up ? _mm512_mul_ps(v, load(up + i, n - i)) : v);
    }
}

static void glu(float *y, const float *gate, const float *up, lm_act act, uint64_t n)
{
    if (act == LM_ACT_SILU)
        act_loop(y, gate, up, LM_ACT_SILU, n);
    else if (act == LM_ACT_GELU_TANH)
        act_loop(y, gate, up, LM_ACT_GELU_TANH, n);
    else
        lm_act_rows_avx2(y, gate, up, act, n);
}

static void act(float *y, const float *x, lm_act act, uint64_t n)
{
    glu(y, x, NULL, act, n);
}

/* As in rows_avx2.c. */
static void xielu(float *y, const float *x, const lm_xielu *a, uint64_t n)
{
    const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f), zero = _mm512_setzero_ps();

    for (uint64_t i = 0; i < n; i += 16) {
        __m512 v = load(x + i, n - i), low = _mm512_min_ps(v, _mm512_set1_ps(a->eps));
        __m512 less = _mm512_mul_ps(vec512_tanh(_mm512_mul_ps(half, low)),
                                    _mm512_add_ps(vec512_exp(low), one));
        __m512 under = _mm512_mul_ps(_mm512_set1_ps(a->negative), _mm512_sub_ps(less, v));
        __m512 over = _mm512_mul_ps(_mm512_set1_ps(a->positive), _mm512_mul_ps(v, v));
        __m512 part = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, zero, _CMP_GT_OQ), under, over);
        _mm512_mask_storeu_ps(y + i, vec512_lanes(n - i), _mm512_fmadd_ps(_mm512_set1_ps(a->beta), v, part));
    }
}

void lm_row_kernels_init_avx512(lm_row_kernels *k)
{
    k->rms = rms;
    k->add = add;
    k->act = act;
    k->xielu = xielu;
    k->glu = glu;
    k->recur = recur;
    k->convolve = convolve;
}
