/* attention_avx512.c - attention over the pages of pages_avx2.c, sixteen lanes at a time.
 *
 * Up to four query heads of a row process a page together: each load of a key or value serves all of them. A
 * page is transposed into float32 once if many queries use it, and read as stored if few do; both give the
 * same bits. Per query: 64 scores, their maximum, e^(score - maximum), their sum as a tree, then the values
 * in ascending order. The result of a query depends on nothing else. */
#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/vec_avx512.h"

enum { TILE = 32, VECTORS = LM_PAGE / 16, HEADS = 4, FEW = 2 };
/* TILE: query rows that share a page; HEADS: heads at once; FEW: up to so many rows, transposing a page does
 * not pay */

#include "kernels/x86/attention_float.h"
#include "kernels/x86/avx512/attention_512.h"
#include "kernels/x86/avx512/pages_512.h"
#include "kernels/x86/index_keys.h"

/* A head's part of a page. */
typedef struct page_part {
    const uint8_t *keys, *values;    /* as stored */
    bool transposed;                 /* both are in the workspace as float32 */
    uint32_t start;                  /* position of its first key */
    ahead *next;
} page_part;

/* ---- scores
 * ------------------------------------------------------------------------------------------------------ */

typedef __m512 load_fn(const uint8_t *p, uint64_t index);

INLINE __m512 load_f32(const uint8_t *p, uint64_t index)
{
    return _mm512_loadu_ps((const float *)(const void *)p + index);
}

INLINE __m512 load_f16(const uint8_t *p, uint64_t index)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p + 2 * index)));
}

/* Keep a vector that several heads use in a register: the compiler would load it once per head. */
INLINE __m512 loaded(__m512 v, const int heads)
{
    if (heads > 1)
        __asm__("" : "+v"(v));
    return v;
}

INLINE void dots(load_fn *load, const float *const *q, const uint8_t *keys, uint32_t dim, const int heads,
                 const int vectors, ahead *next, __m512 s[HEADS][VECTORS])
{
    __m512 acc[HEADS][VECTORS];
    ahead asks = *next;

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < dim; i++) {
        __m512 k[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            k[v] = loaded(load(keys, (uint64_t)i * LM_PAGE + 16u * (unsigned)v), heads);
        ask(&asks);
#pragma GCC unroll 4
        for (int h = 0; h < heads; h++) {
            __m512 x = _mm512_set1_ps(q[h][i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[h][v] = _mm512_fmadd_ps(x, k[v], acc[h][v]);
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            s[h][v] = acc[h][v];
    *next = asks;
}

INLINE void dots_half(load_fn *load, const float *const *q, const uint8_t *keys, uint32_t dim,
                      const int heads, bool half, ahead *next, __m512 s[HEADS][VECTORS])
{
    if (half)
        dots(load, q, keys, dim, heads, VECTORS / 2, next, s);
    else
        dots(load, q, keys, dim, heads, VECTORS, next, s);
}

/* ---- values
 * ------------------------------------------------------------------------------------------------------ */

/* out[h] += sum of p[h][j] * values[j] over 16 * vectors lanes, j ascending. */
INLINE void add_values(load_fn *load, float *const *out, const float *p, const uint8_t *values,
                       uint32_t width, uint32_t at, sight see, const int heads, const int vectors,
                       ahead *next)
{
    __m512 acc[HEADS][4];
    ahead asks = *next;

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = _mm512_loadu_ps(out[h] + at + 16 * v);
    for (uint32_t j = see.from; j < see.to; j++) {
        __m512 x[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            x[v] = loaded(load(values, (uint64_t)j * width + at + 16u * (unsigned)v), heads);
        if (vectors == 4)
            ask(&asks);
#pragma GCC unroll 4
        for (int h = 0; h < heads; h++) {
            __m512 weight = _mm512_set1_ps(p[h * LM_PAGE + (int)j]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[h][v] = _mm512_fmadd_ps(weight, x[v], acc[h][v]);
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(out[h] + at + 16 * v, acc[h][v]);
    *next = asks;
}

/* The same for the remaining lanes, fewer than sixteen, of float32 values. */
static void add_tail(float *out, const float *p, const float *values, uint32_t width, uint32_t at, sight see)
{
    __mmask16 lanes = vec512_lanes(width - at);
    __m512 acc = _mm512_maskz_loadu_ps(lanes, out + at);

    for (uint32_t j = see.from; j < see.to; j++)
        acc = _mm512_fmadd_ps(_mm512_set1_ps(p[j]),
                              _mm512_maskz_loadu_ps(lanes, values + (uint64_t)j * width + at), acc);
    _mm512_mask_storeu_ps(out + at, lanes, acc);
}

INLINE void weighted_values(load_fn *load, float *const *out, const float *p, const uint8_t *values,
                            uint32_t width, sight see, const int heads, ahead *next)
{
    uint32_t i = 0;

    for (; i + 64 <= width; i += 64)
        add_values(load, out, p, values, width, i, see, heads, 4, next);
    for (; i + 16 <= width; i += 16)
        add_values(load, out, p, values, width, i, see, heads, 1, next);
    for (int h = 0; h < heads && i < width; h++)
        add_tail(out[h], p + h * LM_PAGE, (const float *)(const void *)values, width, i, see);
}

/* ---- queries against one page
 * ------------------------------------------------------------------------------------ */

/* Process a page for `heads` query heads of one row, from head g on. */
INLINE void page_step(const lm_attention_args *a, const workspace *w, const page_part *page, uint32_t g,
                      sight see, running *state, const float *const *q, float *const *out, const int heads)
{
    __m512 s[HEADS][VECTORS];
    uint32_t dim = a->kv->k_dim, width = a->kv->v_dim;
    bool half = see.to <= LM_PAGE / 2;

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            s[h][v] = _mm512_setzero_ps();
    if (page->transposed)
        dots_half(load_f32, q, (const void *)w->keys, dim, heads, half, page->next, s);
    else
        dots_half(load_f16, q, page->keys, dim, heads, half, page->next, s);
    /* Each step is done for all heads: they hide each other's latency, and whether a maximum rises is
     * unpredictable. */
    float max[HEADS];
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++) {
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            s[h][v] = score(a, s[h][v], g + (unsigned)h, see, 16u * (unsigned)v);
        max[h] = vec512_max(_mm512_max_ps(_mm512_max_ps(s[h][0], s[h][1]), _mm512_max_ps(s[h][2], s[h][3])));
    }
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
        raise_max(&state[h], max[h], out[h], width);
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++) {
        __m512 top = _mm512_set1_ps(state[h].max);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            s[h][v] = _mm512_sub_ps(s[h][v], top);
        vec512_exps(s[h], VECTORS);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            _mm512_store_ps(w->p + h * LM_PAGE + 16 * v, s[h][v]);
        state[h].sum += vec512_sum(
            _mm512_add_ps(_mm512_add_ps(s[h][0], s[h][1]), _mm512_add_ps(s[h][2], s[h][3])));
    }
    if (page->transposed)
        weighted_values(load_f32, out, w->p, (const void *)w->values, width, see, heads, page->next);
    else
        weighted_values(load_f16, out, w->p, page->values, width, see, heads, page->next);
}

static void row_step(const lm_attention_args *a, const workspace *w, running *states, const page_part *page,
                     uint32_t r, sight see)
{
    for (uint32_t g = 0; g < a->group; g += HEADS) {
        uint32_t heads = a->group - g < HEADS ? a->group - g : HEADS;
        running *state = &states[r * a->group + g];
        const float *q[HEADS];
        float *out[HEADS];
        for (uint32_t h = 0; h < heads; h++) {
            q[h] = a->q + r * a->q_stride + (uint64_t)(g + h) * a->kv->k_dim;
            out[h] = out_of(a, r, g + h);
        }
        switch (heads) {
        case 4: page_step(a, w, page, g, see, state, q, out, 4); break;
        case 3: page_step(a, w, page, g, see, state, q, out, 3); break;
        case 2: page_step(a, w, page, g, see, state, q, out, 2); break;
        default: page_step(a, w, page, g, see, state, q, out, 1);
        }
    }
}

/* ---- a page as float32
 * ------------------------------------------------------------------------------------------- */

INLINE void keys_of_blocks(const lm_dtype type, const uint8_t *block, uint32_t dim, float *out)
{
    for (uint32_t b = 0; b < dim / 32; b++, block += block_bytes(type) * LM_PAGE) {
        scales s[VECTORS];
        scales_of_keys(type, block, s);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
            for (uint32_t i = 0; i < 16; i++, out += LM_PAGE) {
                __m128i codes[VECTORS];
                codes_of_lane(type, block, half, i, codes);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    _mm512_store_ps(out + 16 * v, scaled(type, codes[v], s[v]));
            }
    }
}

INLINE void values_of_blocks(const lm_dtype type, const uint8_t *values, uint32_t dim, uint32_t from,
                             uint32_t to, float *out)
{
    const uint8_t *block = values + (uint64_t)from * (dim / 32) * block_bytes(type);

    out += (uint64_t)from * dim;
    for (uint64_t n = (uint64_t)(to - from) * (dim / 32); n > 0; n--, block += block_bytes(type), out += 32) {
        scales s = scales_of_value(type, block);
        _mm512_storeu_ps(out, lanes_of_value(type, block, 0, s));
        _mm512_storeu_ps(out + 16, lanes_of_value(type, block, 1, s));
    }
}

/* The same as lm_attention_turn_avx2, vectorised for blocks. */
static void turn_page(const lm_kv_shape *kv, const page_part *page, uint32_t from, uint32_t to,
                      const workspace *w)
{
    switch ((int)kv->k_type) {
    case LM_Q8_0: keys_of_blocks(LM_Q8_0, page->keys, kv->k_dim, w->keys); break;
    case LM_Q4_0: keys_of_blocks(LM_Q4_0, page->keys, kv->k_dim, w->keys); break;
    case LM_Q4_1: keys_of_blocks(LM_Q4_1, page->keys, kv->k_dim, w->keys); break;
    case LM_Q5_0: keys_of_blocks(LM_Q5_0, page->keys, kv->k_dim, w->keys); break;
    case LM_Q5_1: keys_of_blocks(LM_Q5_1, page->keys, kv->k_dim, w->keys); break;
    default: lm_attention_keys_avx2(kv, page->keys, w->keys);
    }
    switch (kv->v_in_k ? -1 : (int)kv->v_type) {
    case LM_Q8_0: values_of_blocks(LM_Q8_0, page->values, kv->v_dim, from, to, w->values); break;
    case LM_Q4_0: values_of_blocks(LM_Q4_0, page->values, kv->v_dim, from, to, w->values); break;
    case LM_Q4_1: values_of_blocks(LM_Q4_1, page->values, kv->v_dim, from, to, w->values); break;
    case LM_Q5_0: values_of_blocks(LM_Q5_0, page->values, kv->v_dim, from, to, w->values); break;
    case LM_Q5_1: values_of_blocks(LM_Q5_1, page->values, kv->v_dim, from, to, w->values); break;
    default: lm_attention_values_avx2(kv, page->values, from, to, w->keys, w->values);
    }
}

/* ---- tiles
 * ------------------------------------------------------------------------------------------------------- */

static void page_against_rows(const lm_attention_args *a, const workspace *w, running *states,
                              uint32_t number)
{
    ahead next = page_after(a, number, lm_attention_head_bytes_avx2(a->kv));
    page_part page = { .start = number * LM_PAGE, .next = &next };
    uint32_t min, max;
    sight see;

    if (!any_sees(a, page.start, &min, &max))
        return;
    page.keys = lm_attention_head_avx2(a->kv, a->base + a->pages[number] * a->page_stride, a->head,
                                       &page.values);
    page.transposed = a->rows > FEW || a->kv->k_type != LM_F16 || a->kv->v_type != LM_F16 || a->kv->v_in_k ||
                      a->kv->v_dim % 16;
    if (page.transposed)
        turn_page(a->kv, &page, min, max, w);
    for (uint32_t r = 0; r < a->rows; r++)
        if (sees(a, a->position + r, page.start, &see))
            row_step(a, w, states, &page, r, see);
}

#include "kernels/x86/attention_run.h"

void lm_attention_kernels_init_avx512(lm_attention_kernels *k)
{
    set_runs(k);
    k->index = index_keys;
}
