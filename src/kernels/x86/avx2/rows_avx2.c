/* rows_avx2.c - the kernels on rows of floats, eight lanes at a time.
 *
 * Sums: four accumulators of eight lanes over blocks of 32 in ascending order, then blocks of 8, then the
 * tail padded with zeros; the accumulators are added pairwise. */
#include <float.h>
#include <math.h>

#include "kernels/convolution_lanes.h"
#include "kernels/recurrence_lanes.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"

/* The terms of a sum over a row: x, or (x - shift)^2. */
typedef enum summand { PLAIN, SQUARE } summand;

static inline __attribute__((always_inline)) __m256 sum_term(__m256 acc, __m256 x, __m256 shift, summand what)
{
    if (what == PLAIN)
        return _mm256_add_ps(acc, x);
    x = _mm256_sub_ps(x, shift);
    return _mm256_fmadd_ps(x, x, acc);
}

static inline __attribute__((always_inline)) float sum_row(const float *x, uint64_t n, float shift,
                                                           summand what)
{
    __m256 s[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps() };
    __m256 less = vec_set(shift);
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++)
            s[k] = sum_term(s[k], _mm256_loadu_ps(x + i + 8 * k), less, what);
    for (; i + 8 <= n; i += 8)
        s[0] = sum_term(s[0], _mm256_loadu_ps(x + i), less, what);
    if (i < n) {
        __m256 tail = sum_term(_mm256_setzero_ps(), vec_load_tail(x + i, n - i), less, what);
        s[1] = _mm256_add_ps(s[1], _mm256_and_ps(tail, _mm256_castsi256_ps(vec_mask(n - i))));
    }
    return vec_sum(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}

/* Load eight floats, or the last `left` of a row. */
static inline __m256 load(const float *p, uint64_t left)
{
    return left >= 8 ? _mm256_loadu_ps(p) : vec_load_tail(p, left);
}

static inline void put(float *p, uint64_t left, __m256 v)
{
    if (left >= 8)
        _mm256_storeu_ps(p, v);
    else
        vec_store_tail(p, left, v);
}

static void rms(float *y, const float *x, const float *w, uint64_t width, float eps)
{
    __m256 r = vec_set(1.0f / sqrtf(sum_row(x, width, 0.0f, SQUARE) / (float)width + eps));

    for (uint64_t i = 0; i < width; i += 8) {
        __m256 v = _mm256_mul_ps(load(x + i, width - i), r);
        put(y + i, width - i, w ? _mm256_mul_ps(v, load(w + i, width - i)) : v);
    }
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, uint64_t width, float eps)
{
    float centre = sum_row(x, width, 0.0f, PLAIN) / (float)width;
    __m256 r = vec_set(1.0f / sqrtf(sum_row(x, width, centre, SQUARE) / (float)width + eps)),
           mean = vec_set(centre);

    for (uint64_t i = 0; i < width; i += 8) {
        uint64_t left = width - i;
        __m256 v = _mm256_mul_ps(_mm256_sub_ps(load(x + i, left), mean), r);
        if (w)
            v = _mm256_mul_ps(v, load(w + i, left));
        put(y + i, left, b ? _mm256_add_ps(v, load(b + i, left)) : v);
    }
}

static void add(float *y, const float *a, const float *b, float scale, uint64_t n)
{
    __m256 s = vec_set(scale);

    for (uint64_t i = 0; i < n; i += 8)
        put(y + i, n - i, _mm256_fmadd_ps(s, load(b + i, n - i), load(a + i, n - i)));
}

static void mul(float *y, const float *a, const float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8)
        put(y + i, n - i, _mm256_mul_ps(load(a + i, n - i), load(b + i, n - i)));
}

static void scale(float *y, const float *x, float s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8)
        put(y + i, n - i, _mm256_mul_ps(vec_set(s), load(x + i, n - i)));
}

static void softcap(float *y, const float *x, float cap, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8)
        put(y + i, n - i,
            _mm256_mul_ps(vec_set(cap), vec_tanh(_mm256_div_ps(load(x + i, n - i), vec_set(cap)))));
}

static void clamp(float *y, const float *x, float low, float high, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8)
        put(y + i, n - i, vec_within(load(x + i, n - i), low, high));
}

/* x/2 (1 + f). For x = -infinity the product would be NaN: the smallest finite number gives the limit, -0. */
static inline __m256 half_gate(__m256 x, __m256 f)
{
    return _mm256_mul_ps(_mm256_mul_ps(vec_set(0.5f), x), _mm256_add_ps(vec_set(1.0f), f));
}

/* Few lanes of a model: one at a time. */
static __m256 vec_softplus(__m256 x)
{
    float lanes[8];

    _mm256_storeu_ps(lanes, x);
    for (int i = 0; i < 8; i++)
        lanes[i] = lanes[i] > 20.0f ? lanes[i] : log1pf(expf(lanes[i]));
    return _mm256_loadu_ps(lanes);
}

static inline __attribute__((always_inline)) __m256 activate(__m256 x, lm_act act)
{
    __m256 finite = _mm256_max_ps(vec_set(-FLT_MAX), x), zero = _mm256_setzero_ps();

    switch (act) {
    case LM_ACT_SILU:
        return _mm256_div_ps(finite, _mm256_add_ps(vec_set(1.0f), vec_exp(_mm256_sub_ps(zero, x))));
    case LM_ACT_GELU: return half_gate(finite, vec_erf(_mm256_mul_ps(x, vec_set(0.70710678f))));
    case LM_ACT_GELU_TANH: {
        __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_mul_ps(x, vec_set(0.044715f)));
        return half_gate(finite, vec_tanh(_mm256_mul_ps(vec_set(0.79788456f), _mm256_add_ps(x, cube))));
    }
    case LM_ACT_GELU_QUICK: return _mm256_mul_ps(finite, vec_sigmoid(_mm256_mul_ps(vec_set(1.702f), x)));
    case LM_ACT_RELU: return _mm256_max_ps(zero, x);
    case LM_ACT_RELU2: x = _mm256_max_ps(zero, x); return _mm256_mul_ps(x, x);
    case LM_ACT_SIGMOID: return vec_sigmoid(x);
    case LM_ACT_TANH: return vec_tanh(x);
    case LM_ACT_SOFTPLUS: return vec_softplus(x);
    case LM_ACT_XIELU:
    case LM_ACT_COUNT: break;
    }
    return x;
}

static inline __attribute__((always_inline)) void act_loop(float *y, const float *x, const float *up,
                                                           lm_act act, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        __m256 v = activate(load(x + i, n - i), act);
        put(y + i, n - i, up ? _mm256_mul_ps(v, load(up + i, n - i)) : v);
    }
}

/* One loop per function, so that no loop tests which function it is. */
void lm_act_rows_avx2(float *y, const float *x, const float *up, lm_act act, uint64_t n)
{
    switch (act) {
    case LM_ACT_SILU: act_loop(y, x, up, LM_ACT_SILU, n); break;
    case LM_ACT_GELU: act_loop(y, x, up, LM_ACT_GELU, n); break;
    case LM_ACT_GELU_TANH: act_loop(y, x, up, LM_ACT_GELU_TANH, n); break;
    case LM_ACT_GELU_QUICK: act_loop(y, x, up, LM_ACT_GELU_QUICK, n); break;
    case LM_ACT_RELU: act_loop(y, x, up, LM_ACT_RELU, n); break;
    case LM_ACT_RELU2: act_loop(y, x, up, LM_ACT_RELU2, n); break;
    case LM_ACT_SIGMOID: act_loop(y, x, up, LM_ACT_SIGMOID, n); break;
    case LM_ACT_TANH: act_loop(y, x, up, LM_ACT_TANH, n); break;
    case LM_ACT_SOFTPLUS: act_loop(y, x, up, LM_ACT_SOFTPLUS, n); break;
    case LM_ACT_XIELU:
    case LM_ACT_COUNT: break;
    }
}

/* e^x - 1 = tanh(x/2) (e^x + 1), exact near 0, too. */
static void xielu(float *y, const float *x, const lm_xielu *a, uint64_t n)
{
    const __m256 one = vec_set(1.0f), half = vec_set(0.5f), zero = _mm256_setzero_ps();

    for (uint64_t i = 0; i < n; i += 8) {
        __m256 v = load(x + i, n - i), low = _mm256_min_ps(v, vec_set(a->eps));
        __m256 less = _mm256_mul_ps(vec_tanh(_mm256_mul_ps(half, low)), _mm256_add_ps(vec_exp(low), one));
        __m256 under = _mm256_mul_ps(vec_set(a->negative), _mm256_sub_ps(less, v));
        __m256 over = _mm256_mul_ps(vec_set(a->positive), _mm256_mul_ps(v, v));
        __m256 part = _mm256_blendv_ps(under, over, _mm256_cmp_ps(zero, v, _CMP_LT_OQ));
        put(y + i, n - i, _mm256_fmadd_ps(vec_set(a->beta), v, part));
    }
}

static void act(float *y, const float *x, lm_act act, uint64_t n)
{
    lm_act_rows_avx2(y, x, NULL, act, n);
}

static void glu(float *y, const float *gate, const float *up, lm_act act, uint64_t n)
{
    lm_act_rows_avx2(y, gate, up, act, n);
}

static void glu_clamped(float *y, const float *gate, const float *up, lm_act act, float limit, float plus,
                        uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 8) {
        __m256 u = _mm256_add_ps(vec_within(load(up + i, n - i), -limit, limit), vec_set(plus));
        put(y + i, n - i,
            _mm256_mul_ps(activate(vec_within(load(gate + i, n - i), -INFINITY, limit), act), u));
    }
}

static void softmax(float *x, uint64_t n)
{
    float largest = -INFINITY;
    uint64_t i = 0;
    __m256 max = vec_set(-INFINITY), sum = _mm256_setzero_ps();

    for (; i + 8 <= n; i += 8)
        max = _mm256_max_ps(_mm256_loadu_ps(x + i), max);
    for (; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    max = vec_set(fmaxf(largest, vec_max(max)));

    for (i = 0; i < n; i += 8) {
        __m256 e = vec_exp(_mm256_sub_ps(load(x + i, n - i), max));
        if (n - i < 8)
            e = _mm256_and_ps(e, _mm256_castsi256_ps(vec_mask(n - i)));
        sum = _mm256_add_ps(sum, e);
        put(x + i, n - i, e);
    }
    __m256 total = vec_set(vec_sum(sum));
    for (i = 0; i < n; i += 8)
        put(x + i, n - i, _mm256_div_ps(load(x + i, n - i), total));
}

/* Lanes (i, i + half): eight pairs at a time. */
static void rope_half(float *x, uint64_t half, const float *cosine, const float *sine)
{
    for (uint64_t i = 0; i < half; i += 8) {
        uint64_t left = half - i;
        __m256 a = load(x + i, left), b = load(x + half + i, left), c = load(cosine + i, left),
               s = load(sine + i, left);
        put(x + i, left, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        put(x + half + i, left, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
}

/* Lanes (2i, 2i + 1): four pairs at a time; each angle serves two neighbours. */
static void rope_pair(float *x, uint64_t half, const float *cosine, const float *sine)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);

    for (uint64_t i = 0; i < half; i += 4) {
        uint64_t pairs = half - i < 4 ? half - i : 4;
        __m256 c = _mm256_permutevar8x32_ps(vec_load_tail(cosine + i, pairs), twice);
        __m256 s = _mm256_permutevar8x32_ps(vec_load_tail(sine + i, pairs), twice);
        __m256 v = load(x + 2 * i, 2 * pairs), swapped = _mm256_permute_ps(v, 0xb1);
        put(x + 2 * i, 2 * pairs, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
    }
}

static void rope(float *x, uint64_t n, uint64_t stride, uint64_t dim, const float *cosine, const float *sine,
                 bool pair)
{
    for (uint64_t h = 0; h < n; h++) {
        if (pair)
            rope_pair(x + h * stride, dim / 2, cosine, sine);
        else
            rope_half(x + h * stride, dim / 2, cosine, sine);
    }
}

void lm_row_kernels_init_avx2(lm_row_kernels *k)
{
    *k = (lm_row_kernels){
        .rms = rms,
        .layer_norm = layer_norm,
        .add = add,
        .mul = mul,
        .scale = scale,
        .softcap = softcap,
        .clamp = clamp,
        .act = act,
        .xielu = xielu,
        .glu = glu,
        .glu_clamped = glu_clamped,
        .softmax = softmax,
        .rope = rope,
        .recur = recur,
        .convolve = convolve,
    };
}
