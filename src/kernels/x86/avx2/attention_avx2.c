/* attention_avx2.c - attention over the pages of pages_avx2.c, keys in lanes.
 *
 * A page is transposed into float32 once for all queries of a tile. Per query: 64 scores, their maximum,
 * e^(score - maximum), their sum as a tree, then the values in ascending order. The result of a query depends
 * on nothing else. */
#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"

/* Query rows that share a converted page; vectors of keys; heads at once; sums that fit in registers. */
enum { TILE = 32, VECTORS = LM_PAGE / 8, HEADS = 1, SUMS = REGISTERS_256 / 2 };

#include "kernels/x86/attention_float.h"

/* ---- one query against one page
 * ---------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void dots(const float *q, const float *keys, uint32_t dim,
                                                       const int vectors, __m256 *s)
{
    __m256 acc[VECTORS];

#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        acc[v] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < dim; i++, keys += LM_PAGE) {
        __m256 x = _mm256_broadcast_ss(q + i);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            acc[v] = _mm256_fmadd_ps(x, _mm256_loadu_ps(keys + 8 * v), acc[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        s[v] = acc[v];
}

/* Round to the nearest bfloat16, ties to even. */
static __m256 to_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd  = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000u)));
}

/* Compute the scores of all keys of a page; -infinity for keys that are not visible. */
static void scores(const lm_attention_args *a, const workspace *w, const float *q, uint32_t g, sight see,
                   __m256 s[VECTORS])
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 nothing = vec_set(-INFINITY);

    for (int v = 0; v < VECTORS; v++)
        s[v] = _mm256_setzero_ps();
    if (SUMS < VECTORS || see.to <= LM_PAGE / 2)
        dots(q, w->keys, a->kv->k_dim, VECTORS / 2, s);
    else
        dots(q, w->keys, a->kv->k_dim, VECTORS, s);
    if (SUMS < VECTORS && see.to > LM_PAGE / 2)
        dots(q, w->keys + LM_PAGE / 2, a->kv->k_dim, VECTORS / 2, s + VECTORS / 2);
    for (int v = 0; v < VECTORS; v++) {
        __m256i j = _mm256_add_epi32(lane, _mm256_set1_epi32(8 * v));
        if (a->slopes && a->slopes_half) {
            __m256 key = to_bf16(_mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_set1_epi32((int)see.start), j)));
            s[v] = _mm256_add_ps(s[v], to_bf16(_mm256_mul_ps(vec_set(a->slopes[g]), key)));
        }
        s[v] = _mm256_mul_ps(s[v], vec_set(a->scale));
        if (a->softcap > 0.0f)
            s[v] = _mm256_mul_ps(vec_set(a->softcap), vec_tanh(_mm256_div_ps(s[v], vec_set(a->softcap))));
        if (a->slopes && !a->slopes_half) {
            __m256 back = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32((int)see.distance), j));
            s[v] = _mm256_sub_ps(s[v], _mm256_mul_ps(vec_set(a->slopes[g]), back));
        }
        __m256i seen = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)see.from), j),
                                           _mm256_cmpgt_epi32(_mm256_set1_epi32((int)see.to), j));
        s[v] = _mm256_blendv_ps(nothing, s[v], _mm256_castsi256_ps(seen));
    }
}

/* Rescale the running sum and output to a larger maximum. */
static void raise_max(running *s, float max, float *out, uint32_t width)
{
    if (!(max > s->max))
        return;
    if (s->max == -INFINITY) {                   /* everything is still zero */
        s->max = max;
        return;
    }
    __m256 shrink = vec_exp(vec_set(s->max - max));
    s->max = max;
    s->sum *= _mm256_cvtss_f32(shrink);
    for (uint32_t i = 0; i < width; i += 8) {
        if (width - i >= 8)
            _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(out + i), shrink));
        else
            vec_store_tail(out + i, width - i, _mm256_mul_ps(vec_load_tail(out + i, width - i), shrink));
    }
}

/* out += sum of p[j] * values[j] over 8 * vectors lanes, j ascending. */
static inline __attribute__((always_inline)) void
add_values(float *out, const float *p, const float *values, uint32_t width, sight see, const int vectors)
{
    __m256 acc[8];

#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        acc[v] = _mm256_loadu_ps(out + 8 * v);
    for (uint32_t j = see.from; j < see.to; j++) {
        __m256 x = _mm256_broadcast_ss(p + j);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            acc[v] = _mm256_fmadd_ps(x, _mm256_loadu_ps(values + (uint64_t)j * width + 8 * v), acc[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        _mm256_storeu_ps(out + 8 * v, acc[v]);
}

static void weighted_values(float *out, const float *p, const float *values, uint32_t width, sight see)
{
    uint32_t i = 0;

    for (; i + 8 * SUMS <= width; i += 8 * SUMS)
        add_values(out + i, p, values + i, width, see, SUMS);
    for (; i + 8 <= width; i += 8)
        add_values(out + i, p, values + i, width, see, 1);
    if (i < width) {
        __m256 acc = vec_load_tail(out + i, width - i);
        for (uint32_t j = see.from; j < see.to; j++)
            acc = _mm256_fmadd_ps(vec_set(p[j]), vec_load_tail(values + (uint64_t)j * width + i, width - i),
                                  acc);
        vec_store_tail(out + i, width - i, acc);
    }
}

static void page_step(const lm_attention_args *a, const workspace *w, const float *q, uint32_t g, sight see,
                      running *state, float *out)
{
    __m256 s[VECTORS], max;

    scores(a, w, q, g, see, s);
    max = _mm256_max_ps(_mm256_max_ps(_mm256_max_ps(s[0], s[1]), _mm256_max_ps(s[2], s[3])),
                        _mm256_max_ps(_mm256_max_ps(s[4], s[5]), _mm256_max_ps(s[6], s[7])));
    raise_max(state, vec_max(max), out, a->kv->v_dim);
    for (int v = 0; v < VECTORS; v++) {
        s[v] = vec_exp(_mm256_sub_ps(s[v], vec_set(state->max)));
        _mm256_storeu_ps(w->p + 8 * v, s[v]);
    }
    state->sum += vec_sum(_mm256_add_ps(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])),
                                        _mm256_add_ps(_mm256_add_ps(s[4], s[5]), _mm256_add_ps(s[6], s[7]))));
    weighted_values(out, w->p, w->values, a->kv->v_dim, see);
}

/* ---- tiles
 * ------------------------------------------------------------------------------------------------------- */

static void page_against_rows(const lm_attention_args *a, const workspace *w, running *states, uint32_t page)
{
    const uint8_t *values,
        *keys = lm_attention_head_avx2(a->kv, a->base + a->pages[page] * a->page_stride, a->head, &values);
    uint32_t start = page * LM_PAGE, min, max;
    sight see;

    if (!any_sees(a, start, &min, &max))
        return;
    lm_attention_turn_avx2(a->kv, keys, values, min, max, w->keys, w->values);
    for (uint32_t r = 0; r < a->rows; r++) {
        if (!sees(a, a->position + r, start, &see))
            continue;
        for (uint32_t g = 0; g < a->group; g++)
            page_step(a, w, a->q + r * a->q_stride + (uint64_t)g * a->kv->k_dim, g, see,
                      &states[r * a->group + g], out_of(a, r, g));
    }
}

/* Merge a query's partial result over one more range into *s and out. */
static void join(running *s, float *out, const running *partial, const float *values, uint32_t width)
{
    float max = s->max > partial->max ? s->max : partial->max;
    __m256 shrink = vec_exp(vec_set(s->max - max)), shrink_partial = vec_exp(vec_set(partial->max - max));
    uint32_t i = 0;

    s->max = max;
    s->sum = s->sum * _mm256_cvtss_f32(shrink) + partial->sum * _mm256_cvtss_f32(shrink_partial);
    for (; i + 8 <= width; i += 8)
        _mm256_storeu_ps(out + i, _mm256_fmadd_ps(_mm256_loadu_ps(values + i), shrink_partial,
                                                  _mm256_mul_ps(_mm256_loadu_ps(out + i), shrink)));
    if (i < width)
        vec_store_tail(out + i, width - i,
                       _mm256_fmadd_ps(vec_load_tail(values + i, width - i), shrink_partial,
                                       _mm256_mul_ps(vec_load_tail(out + i, width - i), shrink)));
}

static void finish(const lm_attention_args *a, running *s, uint32_t g, float *out)
{
    uint32_t width = a->kv->v_dim;

    if (a->sinks) {
        raise_max(s, a->sinks[g], out, width);
        s->sum += _mm256_cvtss_f32(vec_exp(vec_set(a->sinks[g] - s->max)));
    }
    for (uint32_t i = 0; i < width; i++)
        out[i] /= s->sum;
}

#include "kernels/x86/attention_run.h"

void lm_attention_kernels_init_avx2(lm_attention_kernels *k)
{
    lm_attention_pages_init_avx2(k);
    set_runs(k);
}
