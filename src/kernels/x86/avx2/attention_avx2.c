/* attention_avx2.c - attention over a paged cache, keys in lanes.
 *
 * A layer's part of a page holds, for one key/value head after the other:
 *   keys    [k_dim][64] transposed: one lane of all 64 keys lies together, so scores need no sum across lanes.
 *           Q8_0: scales f16 [k_dim/32][64], then codes [k_dim][64]
 *   values  [64][v_dim] as rows of the cache's type
 *
 * A page is transposed into float32 once for all queries of a tile. Per query: 64 scores, their maximum, e^(score - maximum),
 * their sum as a tree, then the values in rising order. What a query gives depends on nothing else. */
#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"
#include "tensor/blocks.h"

enum { TILE = 32, VECTORS = LM_PAGE / 8, HEADS = 1 };        /* rows of queries that share a converted page */

#include "kernels/x86/attention_float.h"

static uint64_t row_bytes(const lm_kv_shape *kv, uint32_t dim)
{
    const lm_dtype_info *t = lm_dtype_of(kv->type);
    return (uint64_t)dim / t->block * t->bytes;
}

uint64_t lm_attention_head_bytes_avx2(const lm_kv_shape *kv)
{
    return LM_PAGE * (row_bytes(kv, kv->k_dim) + (kv->v_in_k ? 0 : row_bytes(kv, kv->v_dim)));
}

static uint64_t page_bytes(const lm_kv_shape *kv)
{
    return (kv->n_kv_heads * lm_attention_head_bytes_avx2(kv) + 63) & ~UINT64_C(63);
}

/* ---- storing ----------------------------------------------------------------------------------------------------- */

static void store_key_q8(uint8_t *keys, uint32_t slot, const float *k, uint32_t dim)
{
    uint8_t *codes = keys + dim / 32 * LM_PAGE * 2;

    for (uint32_t b = 0; b < dim / 32; b++) {
        lm_q8_0 block;
        lm_dtype_of(LM_Q8_0)->pack(&block, k + 32 * b, 32);
        memcpy(keys + 2 * (b * LM_PAGE + slot), &block.d, 2);
        for (uint32_t i = 0; i < 32; i++)
            codes[(32 * b + i) * LM_PAGE + slot] = (uint8_t)block.qs[i];
    }
}

/* Eight rows of eight transposed. */
static void turn_8x8(float *out, uint64_t stride, const float *in, uint64_t in_stride)
{
    __m256 a[8], b[8];

    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(in + (uint64_t)i * in_stride);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + (uint64_t)i * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(out + (uint64_t)(i + 4) * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* One lane of a key. */
INLINE void store_lane(const lm_dtype type, uint8_t *keys, uint64_t at, float k)
{
    uint16_t bits;

    switch ((int)type) {
    case LM_F32: memcpy(keys + 4 * at, &k, 4); break;
    case LM_F16: bits = _cvtss_sh(k, 0); memcpy(keys + 2 * at, &bits, 2); break;
    default: bits = lm_f32_to_bf16(k); memcpy(keys + 2 * at, &bits, 2);
    }
}

INLINE void store_lanes_as(const lm_dtype type, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k, uint64_t stride,
                           uint32_t from, uint32_t to)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = from; i < to; i++)
            store_lane(type, keys, (uint64_t)i * LM_PAGE + slot + r, k[r * stride + i]);
}

/* Lanes [from, to) of some keys. */
static void store_lanes(lm_dtype type, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k, uint64_t stride, uint32_t from,
                        uint32_t to)
{
    switch ((int)type) {
    case LM_F32: store_lanes_as(LM_F32, keys, slot, rows, k, stride, from, to); break;
    case LM_F16: store_lanes_as(LM_F16, keys, slot, rows, k, stride, from, to); break;
    default: store_lanes_as(LM_BF16, keys, slot, rows, k, stride, from, to);
    }
}

/* Eight lanes of eight keys, in F16. */
static void store_8x8(uint8_t *keys, uint32_t lane, uint32_t slot, const float *k, uint64_t stride)
{
    float transposed[64];

    turn_8x8(transposed, 8, k, stride);
    for (uint32_t i = 0; i < 8; i++)
        _mm_storeu_si128((void *)(keys + 2 * ((uint64_t)(lane + i) * LM_PAGE + slot)),
                         _mm256_cvtps_ph(_mm256_loadu_ps(transposed + 8 * i), 0));
}

/* All rows of a lane lie together, often in lines that another worker writes to as well: eight rows of F16 visit them once. */
static void store_keys(lm_dtype type, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k, uint64_t stride, uint32_t dim)
{
    uint32_t lanes = rows >= 8 && type == LM_F16 ? dim & ~7u : 0;

    if (type == LM_Q8_0) {
        for (uint32_t r = 0; r < rows; r++)
            store_key_q8(keys, slot + r, k + r * stride, dim);
        return;
    }
    for (uint32_t i = 0; i < lanes; i += 8) {
        uint32_t r = 0;
        for (; r + 8 <= rows; r += 8)
            store_8x8(keys, i, slot + r, k + r * stride + i, stride);
        store_lanes(type, keys, slot + r, rows - r, k + r * stride, stride, i, i + 8);
    }
    store_lanes(type, keys, slot, rows, k, stride, lanes, dim);
}

static void store_values(lm_dtype type, uint8_t *values, const float *v, uint32_t dim)
{
    uint32_t i = 0;

    if (type != LM_F16) {
        lm_dtype_of(type)->pack(values, v, dim);
        return;
    }
    for (; i + 8 <= dim; i += 8)
        _mm_storeu_si128((void *)(values + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(v + i), 0));
    lm_dtype_of(type)->pack(values + 2 * i, v + i, dim - i);
}

static void store(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, uint32_t rows, const float *k, uint64_t k_stride, const float *v,
                  uint64_t v_stride)
{
    uint64_t v_bytes = kv->v_in_k ? 0 : row_bytes(kv, kv->v_dim);

    for (uint32_t h = 0; h < kv->n_kv_heads; h++) {
        uint8_t *keys = page + h * lm_attention_head_bytes_avx2(kv), *values = keys + LM_PAGE * row_bytes(kv, kv->k_dim);
        store_keys(kv->type, keys, slot, rows, k + (uint64_t)h * kv->k_dim, k_stride, kv->k_dim);
        for (uint32_t r = 0; r < rows && !kv->v_in_k; r++)
            store_values(kv->type, values + (slot + r) * v_bytes, v + r * v_stride + (uint64_t)h * kv->v_dim, kv->v_dim);
    }
}

/* ---- a page as float32 ------------------------------------------------------------------------------------------- */

static void load_keys(const lm_kv_shape *kv, const uint8_t *keys, float *out)
{
    if (kv->type != LM_Q8_0) {
        lm_unpack_avx2(kv->type)(out, keys, (size_t)kv->k_dim * LM_PAGE);
        return;
    }
    const uint8_t *codes = keys + kv->k_dim / 32 * LM_PAGE * 2;
    for (uint32_t i = 0; i < kv->k_dim; i++) {
        for (uint32_t j = 0; j < LM_PAGE; j += 8) {
            __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(keys + 2 * (i / 32 * LM_PAGE + j))));
            __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(codes + (uint64_t)i * LM_PAGE + j)));
            _mm256_storeu_ps(out + (uint64_t)i * LM_PAGE + j, _mm256_mul_ps(d, _mm256_cvtepi32_ps(q)));
        }
    }
}

/* Values [from, to) as rows; those of MLA are transposed back out of the keys. */
static void load_values(const lm_kv_shape *kv, const uint8_t *values, uint32_t from, uint32_t to, const workspace *w)
{
    uint64_t bytes = row_bytes(kv, kv->v_dim);

    if (!kv->v_in_k) {
        lm_unpack_avx2(kv->type)(w->values + (uint64_t)from * kv->v_dim, values + from * bytes,
                                 (size_t)(to - from) * kv->v_dim);
        return;
    }
    uint32_t whole = kv->v_dim & ~7u;
    for (uint32_t j = from & ~7u; j < to; j += 8)
        for (uint32_t i = 0; i < whole; i += 8)
            turn_8x8(w->values + (uint64_t)j * kv->v_dim + i, kv->v_dim, w->keys + (uint64_t)i * LM_PAGE + j, LM_PAGE);
    for (uint32_t j = from; j < to; j++)
        for (uint32_t i = whole; i < kv->v_dim; i++)
            w->values[(uint64_t)j * kv->v_dim + i] = w->keys[(uint64_t)i * LM_PAGE + j];
}

const uint8_t *lm_attention_head_avx2(const lm_kv_shape *kv, const uint8_t *page, uint32_t head, const uint8_t **values)
{
    const uint8_t *keys = page + head * lm_attention_head_bytes_avx2(kv);

    *values = keys + LM_PAGE * row_bytes(kv, kv->k_dim);
    return keys;
}

void lm_attention_turn_avx2(const lm_kv_shape *kv, const uint8_t *keys, const uint8_t *values, uint32_t from, uint32_t to,
                            float *out_keys, float *out_values)
{
    const workspace w = { .keys = out_keys, .values = out_values };

    load_keys(kv, keys, out_keys);
    load_values(kv, values, from, to, &w);
}

/* ---- one query against one page ---------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void dots(const float *q, const float *keys, uint32_t dim,
                                                       const int vectors, __m256 s[VECTORS])
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

/* The nearest bfloat16, ties to even. */
static __m256 to_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd  = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000u)));
}

/* Scores of all lanes; -infinity where nothing is seen. */
static void scores(const lm_attention_args *a, const workspace *w, const float *q, uint32_t g, sight see,
                   __m256 s[VECTORS])
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 nothing = vec_set(-INFINITY);

    for (int v = 0; v < VECTORS; v++)
        s[v] = _mm256_setzero_ps();
    if (see.to <= LM_PAGE / 2)
        dots(q, w->keys, a->kv->k_dim, VECTORS / 2, s);
    else
        dots(q, w->keys, a->kv->k_dim, VECTORS, s);
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

/* Scale what is there to a larger maximum. */
static void raise_max(running *s, float max, float *out, uint32_t width)
{
    if (!(max > s->max))
        return;
    if (s->max == -INFINITY) {                   /* everything is zero yet */
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

/* out += sum of p[j] * values[j] over 8 * vectors lanes, j rising. */
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

    for (; i + 64 <= width; i += 64)
        add_values(out + i, p, values + i, width, see, 8);
    for (; i + 8 <= width; i += 8)
        add_values(out + i, p, values + i, width, see, 1);
    if (i < width) {
        __m256 acc = vec_load_tail(out + i, width - i);
        for (uint32_t j = see.from; j < see.to; j++)
            acc = _mm256_fmadd_ps(vec_set(p[j]), vec_load_tail(values + (uint64_t)j * width + i, width - i), acc);
        vec_store_tail(out + i, width - i, acc);
    }
}

static void page_step(const lm_attention_args *a, const workspace *w, const float *q, uint32_t g, sight see, running *state,
                      float *out)
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

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static void page_against_rows(const lm_attention_args *a, const workspace *w, running *states, uint32_t page)
{
    const uint8_t *keys = a->base + a->pages[page] * a->page_stride + a->head * lm_attention_head_bytes_avx2(a->kv);
    uint32_t start = page * LM_PAGE, least, most;
    sight see;

    if (!any_sees(a, start, &least, &most))
        return;
    load_keys(a->kv, keys, w->keys);
    load_values(a->kv, keys + LM_PAGE * row_bytes(a->kv, a->kv->k_dim), least, most, w);
    for (uint32_t r = 0; r < a->rows; r++) {
        if (!sees(a, a->position + r, start, &see))
            continue;
        for (uint32_t g = 0; g < a->group; g++)
            page_step(a, w, a->q + r * a->q_stride + (uint64_t)g * a->kv->k_dim, g, see,
                      &states[r * a->group + g], out_of(a, r, g));
    }
}

/* What a query has of one more range. */
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
        vec_store_tail(out + i, width - i, _mm256_fmadd_ps(vec_load_tail(values + i, width - i), shrink_partial,
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
    k->page_bytes = page_bytes;
    k->store = store;
    set_runs(k);
}
