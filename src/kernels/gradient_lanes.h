/* gradient_lanes.h - the kernels of gradients.h in vectors of LANES floats, compiled for each instruction set
 * with its flags.
 *
 * Define before including it: LANES (4, 8, 16); STRIP, the vectors in a strip of the product's columns;
 * GRADIENTS_INIT, the function that fills the table; and, if there is an instruction for it, FUSED(a, b, c):
 * a b + c of vectors, rounded once. The compiler itself fuses nothing (-ffp-contract=off), because the loops
 * in which it would do so differ from compiler to compiler. */
#include <math.h>
#include <string.h>

#include "kernels/exp_lanes.h"
#include "kernels/gradients.h"
#include "tensor/dtype.h"

/* FUSED for four floats and for one: either all three round once, or none does. */
#ifdef FUSED
#define FUSED_FOUR(a, b, c) (v4)_mm_fmadd_ps((__m128)(a), (__m128)(b), (__m128)(c))
#define FUSED_ONE(a, b, c)  __builtin_fmaf(a, b, c)
#else
#define FUSED(a, b, c)      ((a) * (b) + (c))
#define FUSED_FOUR          FUSED
#define FUSED_ONE           FUSED
#endif

typedef float   vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float   v4 __attribute__((vector_size(16)));

enum { BLOCK_ROWS = 6, BLOCK_DEPTH = 128, QUERY_TILE = 16 };

static inline vf load(const float *x)
{
    vf v;

    memcpy(&v, x, sizeof v);
    return v;
}

static inline void store(float *x, vf v)
{
    memcpy(x, &v, sizeof v);
}

static inline vf all(float x)
{
    return x - (vf){ 0 };
}

/* Sum the lanes as a tree: add the upper half to the lower half, repeatedly. */
static inline float lanes_sum(vf v)
{
    float x[LANES];

    memcpy(x, &v, sizeof x);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

LM_EXP_LANES(lanes_exp, vf, vi, FUSED)

static float dot(const float *a, const float *b, uint64_t n)
{
    vf       sum  = { 0 };
    float    rest = 0;
    uint64_t i    = 0;

    for (; i + LANES <= n; i += LANES)
        sum = FUSED(load(a + i), load(b + i), sum);
    for (; i < n; i++)
        rest = FUSED_ONE(a[i], b[i], rest);
    return lanes_sum(sum) + rest;
}

/* ---- products ---- */

/* Compute rows [m, m + rows) of C, in `vectors` vectors of columns from n, over k in [from, to). */
#define STRIP_OF(name, type, width, vectors, add)                                                    \
    __attribute__((always_inline)) static inline void name(const lm_gemm *g, uint64_t m, uint64_t n, \
                                                           uint64_t from, uint64_t to,               \
                                                           const unsigned rows)                      \
    {                                                                                                \
        type         acc[BLOCK_ROWS][vectors];                                                       \
        const float *a = g->a + m * g->a_row;                                                        \
        _Pragma("GCC unroll 6") for (unsigned r = 0; r < rows; r++)                                  \
            _Pragma("GCC unroll 4") for (unsigned v = 0; v < (vectors); v++)                         \
                memcpy(&acc[r][v], g->c + (m + r) * g->c_row + n + v * (width), sizeof(type));       \
        for (uint64_t k = from; k < to; k++) {                                                       \
            type b[vectors];                                                                         \
            _Pragma("GCC unroll 4") for (unsigned v = 0; v < (vectors); v++)                         \
                memcpy(&b[v], g->b + k * g->b_row + n + v * (width), sizeof(type));                  \
            _Pragma("GCC unroll 6") for (unsigned r = 0; r < rows; r++) {                            \
                type x = a[r * g->a_row + k * g->a_col] - (type){ 0 };                               \
                _Pragma("GCC unroll 4") for (unsigned v = 0; v < (vectors); v++)                     \
                    acc[r][v] = add(x, b[v], acc[r][v]);                                             \
            }                                                                                        \
        }                                                                                            \
        _Pragma("GCC unroll 6") for (unsigned r = 0; r < rows; r++)                                  \
            _Pragma("GCC unroll 4") for (unsigned v = 0; v < (vectors); v++)                         \
                memcpy(g->c + (m + r) * g->c_row + n + v * (width), &acc[r][v], sizeof(type));       \
    }                                                                                                \
    static void name##_rows(const lm_gemm *g, uint64_t n, uint64_t from, uint64_t to)                \
    {                                                                                                \
        uint64_t m = 0;                                                                              \
                                                                                                     \
        for (; m + BLOCK_ROWS <= g->m; m += BLOCK_ROWS)                                              \
            name(g, m, n, from, to, BLOCK_ROWS);                                                     \
        for (; m < g->m; m++)                                                                        \
            name(g, m, n, from, to, 1);                                                              \
    }

STRIP_OF(wide_strip, vf, LANES, STRIP, FUSED)
STRIP_OF(lane_strip, vf, LANES, 1, FUSED)
STRIP_OF(four_strip, v4, 4, 1, FUSED_FOUR)

/* Compute the last columns one at a time, with the same order of sums. */
static void last_columns(const lm_gemm *g, uint64_t n, uint64_t from, uint64_t to)
{
    for (uint64_t m = 0; m < g->m; m++)
        for (uint64_t i = n; i < g->n; i++) {
            float sum = g->c[m * g->c_row + i];
            for (uint64_t k = from; k < to; k++)
                sum = FUSED_ONE(g->a[m * g->a_row + k * g->a_col], g->b[k * g->b_row + i], sum);
            g->c[m * g->c_row + i] = sum;
        }
}

static void gemm(const lm_gemm *g)
{
    for (uint64_t from = 0; from < g->k; from += BLOCK_DEPTH) {
        uint64_t to = g->k - from < BLOCK_DEPTH ? g->k : from + BLOCK_DEPTH, n = 0;
        for (; n + STRIP * LANES <= g->n; n += STRIP * LANES)
            wide_strip_rows(g, n, from, to);
        for (; n + LANES <= g->n; n += LANES)
            lane_strip_rows(g, n, from, to);
        for (; n + 4 <= g->n; n += 4)
            four_strip_rows(g, n, from, to);
        if (n < g->n)
            last_columns(g, n, from, to);
    }
}

/* ---- norms ---- */

static void rms(float *dx, const float *x, const float *dy, const float *w, uint64_t width, float eps,
                bool first)
{
    float r = 1.0f / sqrtf(dot(x, x, width) / (float)width + eps), sum = 0, mean;

    for (uint64_t i = 0; i < width; i++)
        sum += (w ? dy[i] * w[i] : dy[i]) * x[i];
    mean = sum * r / (float)width;
    for (uint64_t i = 0; i < width; i++) {
        float d = r * ((w ? dy[i] * w[i] : dy[i]) - x[i] * r * mean);
        dx[i]   = first ? d : dx[i] + d;
    }
}

static void rms_weight(float *dw, const float *x, const float *dy, uint64_t width, float eps)
{
    float r = 1.0f / sqrtf(dot(x, x, width) / (float)width + eps);

    for (uint64_t i = 0; i < width; i++)
        dw[i] += dy[i] * (x[i] * r);
}

/* Compute the mean and the reciprocal of the deviation of a row. */
static void moments(const float *x, uint64_t width, float eps, float *mean, float *r)
{
    float sum = 0, squares = 0;

    for (uint64_t i = 0; i < width; i++)
        sum += x[i];
    *mean = sum / (float)width;
    for (uint64_t i = 0; i < width; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *r = 1.0f / sqrtf(squares / (float)width + eps);
}

static void layer_norm(float *dx, const float *x, const float *dy, const float *w, uint64_t width, float eps,
                       bool first)
{
    float mean, r, sum = 0, along = 0;

    moments(x, width, eps, &mean, &r);
    for (uint64_t i = 0; i < width; i++) {
        float u = w ? dy[i] * w[i] : dy[i];
        sum += u;
        along += u * ((x[i] - mean) * r);
    }
    sum /= (float)width;
    along /= (float)width;
    for (uint64_t i = 0; i < width; i++) {
        float d = r * ((w ? dy[i] * w[i] : dy[i]) - sum - (x[i] - mean) * r * along);
        dx[i]   = first ? d : dx[i] + d;
    }
}

static void layer_norm_weight(float *dw, float *db, const float *x, const float *dy, uint64_t width,
                              float eps)
{
    float mean, r;

    moments(x, width, eps, &mean, &r);
    for (uint64_t i = 0; dw && i < width; i++)
        dw[i] += dy[i] * ((x[i] - mean) * r);
    for (uint64_t i = 0; db && i < width; i++)
        db[i] += dy[i];
}

/* ---- activations ---- */

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* act(x) and its derivative. */
static void activation(float x, lm_act act, float *y, float *d)
{
    float s, t;

    switch (act) {
    case LM_ACT_SILU:
        s  = sigmoid(x);
        *y = x * s;
        *d = s * (1.0f + x * (1.0f - s));
        return;
    case LM_ACT_GELU:
        s  = 0.5f * (1.0f + erff(x * 0.70710678f));
        *y = x * s;
        *d = s + x * 0.39894228f * expf(-0.5f * x * x);
        return;
    case LM_ACT_GELU_TANH:
        t  = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
        *y = 0.5f * x * (1.0f + t);
        *d = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * x * x);
        return;
    case LM_ACT_GELU_QUICK:
        s  = sigmoid(1.702f * x);
        *y = x * s;
        *d = s * (1.0f + 1.702f * x * (1.0f - s));
        return;
    case LM_ACT_RELU:
        *y = x > 0.0f ? x : 0.0f;
        *d = x > 0.0f ? 1.0f : 0.0f;
        return;
    case LM_ACT_RELU2:
        *y = x > 0.0f ? x * x : 0.0f;
        *d = x > 0.0f ? 2.0f * x : 0.0f;
        return;
    case LM_ACT_SIGMOID:
        s  = sigmoid(x);
        *y = s;
        *d = s * (1.0f - s);
        return;
    case LM_ACT_TANH:
        t  = tanhf(x);
        *y = t;
        *d = 1.0f - t * t;
        return;
    case LM_ACT_SOFTPLUS:
        *y = x > 20.0f ? x : log1pf(expf(x));
        *d = x > 20.0f ? 1.0f : sigmoid(x);
        return;
    case LM_ACT_XIELU:                   /* runtime/ops/row_elements.c */
    case LM_ACT_COUNT:
        break;
    }
    *y = x;
    *d = 1.0f;
}

static void put(float *to, float x, bool first)
{
    if (to)
        *to = first ? x : *to + x;
}

static void act_back(float *dx, const float *x, const float *dy, lm_act act, uint64_t n, bool first)
{
    for (uint64_t i = 0; i < n; i++) {
        float y, d;
        activation(x[i], act, &y, &d);
        put(dx + i, dy[i] * d, first);
    }
}

/* SiLU in vectors: the activation of most models. */
static uint64_t silu_back(float *dgate, float *dup, const float *gate, const float *up, const float *dy,
                          uint64_t n, bool first_gate, bool first_up)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vf g = load(gate + i), s = 1.0f / (1.0f + lanes_exp(-g)), d = load(dy + i);
        if (dgate) {
            vf to = d * load(up + i) * (s * FUSED(g, 1.0f - s, all(1.0f)));
            store(dgate + i, first_gate ? to : load(dgate + i) + to);
        }
        if (dup) {
            vf to = d * (g * s);
            store(dup + i, first_up ? to : load(dup + i) + to);
        }
    }
    return i;
}

static void glu_back(float *dgate, float *dup, const float *gate, const float *up, const float *dy,
                     lm_act act, uint64_t n, bool first_gate, bool first_up)
{
    uint64_t i = act == LM_ACT_SILU ? silu_back(dgate, dup, gate, up, dy, n, first_gate, first_up) : 0;

    for (; i < n; i++) {
        float y, d;
        activation(gate[i], act, &y, &d);
        put(dgate ? dgate + i : NULL, dy[i] * up[i] * d, first_gate);
        put(dup ? dup + i : NULL, dy[i] * y, first_up);
    }
}

/* ---- attention ---- */

/* Scratch: transposed keys and values, with positions along a row, and three tiles of queries times
 * positions. */
typedef struct tiles {
    uint64_t stride;                     /* positions, whole vectors */
    float   *k, *v, *s, *d, *slant;      /* [k_dim][stride], [v_dim][stride], 3 x [QUERY_TILE][stride] */
} tiles;

static tiles tiles_of(const lm_text_attention *a)
{
    tiles t = { .stride = ((uint64_t)a->rows + 63) & ~UINT64_C(63), .k = a->scratch };

    t.v     = t.k + t.stride * a->k_dim;
    t.s     = t.v + t.stride * a->v_dim;
    t.d     = t.s + t.stride * QUERY_TILE;
    t.slant = t.d + t.stride * QUERY_TILE;
    return t;
}

/* Transpose positions [from, to) of x [rows][dim] to dst [dim][stride]. */
static void lay_along(float *dst, uint64_t stride, const float *x, uint64_t x_row, uint32_t dim,
                      uint32_t from, uint32_t to)
{
    for (uint32_t j = from; j < to; j++)
        for (uint32_t i = 0; i < dim; i++)
            dst[i * stride + j] = x[j * x_row + i];
}

/* Return the first key that is visible to a row. */
static uint32_t first_key(const lm_text_attention *a, uint32_t row)
{
    return lm_first_seen(a->window, a->chunked, row);
}

/* Compute the scores of rows [i, i + n) with keys [from, to) in t->s, -inf for keys not visible to a row.
 * `slants`: with a softcap, also store the derivative of the capped score in t->slant. */
static void scores(const lm_text_attention *a, const tiles *t, uint32_t i, uint32_t n, uint32_t from,
                   uint32_t to, bool slants)
{
    for (uint32_t r = 0; r < n; r++)
        memset(t->s + r * t->stride + from, 0, (to - from) * sizeof(float));
    gemm(&(lm_gemm){ .c = t->s + from,
                     .c_row = t->stride,
                     .a = a->q + i * a->q_row,
                     .a_row = a->q_row,
                     .a_col = 1,
                     .b = t->k + from,
                     .b_row = t->stride,
                     .m = n,
                     .n = to - from,
                     .k = a->k_dim });
    for (uint32_t r = 0; r < n; r++) {
        float   *s     = t->s + r * t->stride, *slant = t->slant + r * t->stride;
        uint32_t first = first_key(a, i + r), row = i + r;
        for (uint32_t j = from; j < to; j++) {
            float x = s[j];
            if (a->slope != 0.0f && a->slope_half)
                x += lm_rounded_to_bf16(a->slope * lm_rounded_to_bf16((float)j));
            x *= a->scale;
            if (a->softcap > 0.0f) {
                float y = tanhf(x / a->softcap);
                x       = a->softcap * y;
                if (slants)
                    slant[j] = 1.0f - y * y;
            }
            if (a->slope != 0.0f && !a->slope_half)
                x -= a->slope * ((float)row - (float)j);
            s[j] = j > row || j < first ? -INFINITY : x;
        }
    }
}

/* Replace s by exp(s - lse) and return the sum. Vectors begin at multiples of LANES, so sums do not depend on
 * where a tile begins. */
static float exponentials(float *s, uint32_t from, uint32_t to, float lse)
{
    uint32_t j   = from / LANES * LANES;
    vf       sum = { 0 };

    for (; j < to; j += LANES) {
        vf e = lanes_exp(load(s + j) - lse);
        store(s + j, e);
        sum += e;
    }
    return lanes_sum(sum);
}

/* Set the positions outside [from, to) in the first and the last vector to -inf, so that they count as not
 * visible. */
static void hide_edges(float *s, uint32_t from, uint32_t to)
{
    for (uint32_t j = from / LANES * LANES; j < from; j++)
        s[j] = -INFINITY;
    for (uint32_t j = to; j % LANES; j++)
        s[j] = -INFINITY;
}

static void attend(const lm_text_attention *a, uint32_t from, uint32_t to)
{
    tiles t = tiles_of(a);

    lay_along(t.k, t.stride, a->k, a->k_row, a->k_dim, first_key(a, from), to);
    for (uint32_t i = from; i < to; i += QUERY_TILE) {
        uint32_t n = to - i < QUERY_TILE ? to - i : QUERY_TILE, low = first_key(a, i), high = i + n;
        scores(a, &t, i, n, low, high, false);
        for (uint32_t r = 0; r < n; r++) {
            float *s = t.s + r * t.stride, *out = a->out + (i + r) * a->out_row,
                  max = a->sink ? a->sink_score : -INFINITY, sum;
            hide_edges(s, low, high);
            for (uint32_t j = low; j < high; j++)
                max = s[j] > max ? s[j] : max;
            sum = exponentials(s, low, high, max);
            if (a->sink)
                sum += expf(a->sink_score - max);
            for (uint32_t j = low; j < high; j++)
                s[j] /= sum;
            a->lse[(i + r) * a->lse_row] = max + logf(sum);
            memset(out, 0, a->v_dim * sizeof *out);
        }
        gemm(&(lm_gemm){ .c = a->out + i * a->out_row,
                         .c_row = a->out_row,
                         .a = t.s + low,
                         .a_row = t.stride,
                         .a_col = 1,
                         .b = a->v + low * a->v_row,
                         .b_row = a->v_row,
                         .m = n,
                         .n = a->v_dim,
                         .k = high - low });
    }
}

/* Compute the probabilities of rows [i, i + n) and keys [from, to) in t->s, and the gradients of their
 * products q.k in t->d. */
static void slopes_of(const lm_text_attention *a, const tiles *t, uint32_t i, uint32_t n, uint32_t from,
                      uint32_t to)
{
    bool capped = a->softcap > 0.0f;

    scores(a, t, i, n, from, to, capped);
    for (uint32_t r = 0; r < n; r++)
        memset(t->d + r * t->stride + from, 0, (to - from) * sizeof(float));
    gemm(&(lm_gemm){ .c = t->d + from,
                     .c_row = t->stride,
                     .a = a->dout + i * a->dout_row,
                     .a_row = a->dout_row,
                     .a_col = 1,
                     .b = t->v + from,
                     .b_row = t->stride,
                     .m = n,
                     .n = to - from,
                     .k = a->v_dim });
    for (uint32_t r = 0; r < n; r++) {
        float *s = t->s + r * t->stride, *d = t->d + r * t->stride, *slant = t->slant + r * t->stride;
        float  delta = dot(a->dout + (i + r) * a->dout_row, a->out + (i + r) * a->out_row, a->v_dim);
        hide_edges(s, from, to);
        exponentials(s, from, to, a->lse[(i + r) * a->lse_row]);
        for (uint32_t j = from; j < to; j++) {
            float x = s[j] * (d[j] - delta) * a->scale;
            d[j]    = capped ? x * slant[j] : x;
        }
    }
}

static void attend_back_q(const lm_text_attention *a, uint32_t from, uint32_t to)
{
    tiles    t     = tiles_of(a);
    uint32_t first = first_key(a, from);

    lay_along(t.k, t.stride, a->k, a->k_row, a->k_dim, first, to);
    lay_along(t.v, t.stride, a->v, a->v_row, a->v_dim, first, to);
    for (uint32_t i = from; i < to; i += QUERY_TILE) {
        uint32_t n = to - i < QUERY_TILE ? to - i : QUERY_TILE, low = first_key(a, i), high = i + n;
        slopes_of(a, &t, i, n, low, high);
        gemm(&(lm_gemm){ .c = a->dq + i * a->dq_row,
                         .c_row = a->dq_row,
                         .a = t.d + low,
                         .a_row = t.stride,
                         .a_col = 1,
                         .b = a->k + low * a->k_row,
                         .b_row = a->k_row,
                         .m = n,
                         .n = a->k_dim,
                         .k = high - low });
    }
}

static void attend_back_kv(const lm_text_attention *a, uint32_t from, uint32_t to)
{
    tiles    t    = tiles_of(a);
    uint32_t past = a->chunked ? (to - 1) / a->window * a->window : to - 1,   /* the last row + 1 is a window
                                                                                 after it */
        last = a->window && past + a->window < a->rows ? past + a->window : a->rows;

    lay_along(t.k, t.stride, a->k, a->k_row, a->k_dim, from, to);
    lay_along(t.v, t.stride, a->v, a->v_row, a->v_dim, from, to);
    for (uint32_t i = from / QUERY_TILE * QUERY_TILE; i < last; i += QUERY_TILE) {
        uint32_t n = last - i < QUERY_TILE ? last - i : QUERY_TILE;
        slopes_of(a, &t, i, n, from, to);
        if (a->dv)
            gemm(&(lm_gemm){ .c = a->dv + from * a->dv_row,
                             .c_row = a->dv_row,
                             .a = t.s + from,
                             .a_row = 1,
                             .a_col = t.stride,
                             .b = a->dout + i * a->dout_row,
                             .b_row = a->dout_row,
                             .m = to - from,
                             .n = a->v_dim,
                             .k = n });
        if (a->dk)
            gemm(&(lm_gemm){ .c = a->dk + from * a->dk_row,
                             .c_row = a->dk_row,
                             .a = t.d + from,
                             .a_row = 1,
                             .a_col = t.stride,
                             .b = a->q + i * a->q_row,
                             .b_row = a->q_row,
                             .m = to - from,
                             .n = a->k_dim,
                             .k = n });
    }
}

/* ---- loss ---- */

static double loss(float *z, uint64_t n, uint32_t label, float weight)
{
    float    max = -INFINITY, at = z[label];
    double   sum = 0;
    uint64_t i   = 0;

    for (uint64_t k = 0; k < n; k++)
        max = z[k] > max ? z[k] : max;
    for (; i + LANES <= n; i += LANES) {
        vf e = lanes_exp(load(z + i) - max);
        store(z + i, e);
        sum += (double)lanes_sum(e);
    }
    for (; i < n; i++) {
        z[i] = expf(z[i] - max);
        sum += (double)z[i];
    }
    float scale = (float)((double)weight / sum);
    for (i = 0; i < n; i++)
        z[i] *= scale;
    z[label] -= weight;
    return (double)max + log(sum) - (double)at;
}

void GRADIENTS_INIT(lm_gradient_kernels *k)
{
    *k = (lm_gradient_kernels){
        .gemm              = gemm,
        .rms               = rms,
        .layer_norm        = layer_norm,
        .rms_weight        = rms_weight,
        .layer_norm_weight = layer_norm_weight,
        .act               = act_back,
        .glu               = glu_back,
        .attend            = attend,
        .attend_back_q     = attend_back_q,
        .attend_back_kv    = attend_back_kv,
        .loss              = loss,
        .dot               = dot,
    };
}
