/* attention_avx512bf16.c - attention over the pages of attention_avx2.c by dot products of bfloat16.
 *
 * Queries, keys, values and probabilities are rounded to bfloat16, to nearest; products are exact, sums and everything between the
 * two products are float32. Two lanes of a key lie beside each other, [k_dim/2][64][2], and so do two positions of a value,
 * [32][v_dim][2]: pairs of rows of a page as it is stored. Where many queries use a page its pairs are made once, where few do
 * while it is read; both give the same bits.
 *
 * Up to four queries that see the same keys of a page, heads and rows alike, go through it together. Per query: 64 scores, their
 * maximum, e^(score - maximum), the sum of what that was rounded to, then pairs of values in rising order. What a query gives
 * depends on nothing else. */
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"

enum { TILE = 32, VECTORS = LM_PAGE / 16, PAIRS = LM_PAGE / 2, HEADS = 4 };      /* query rows that share a page; queries at once */

#include "kernels/x86/avx512/attention_512.h"

/* ---- memory of a worker ------------------------------------------------------------------------------------------ */

/* Pairs of a page, queries [TILE][group][k_dim/2], probabilities [HEADS][32], states [2][TILE][group], what a range gives
 * [TILE][group][v_dim]; a page as float32 where pairs are not made of what is stored. */
typedef struct workspace {
    uint32_t *keys, *values, *q, *p;
    running  *states;
    float    *partial, *float_keys, *float_values;
} workspace;

static uint32_t pairs_of(uint32_t dim)
{
    return (dim + 1) / 2;
}

/* Pairs are made of rows of halves, sixteen lanes at a time. */
static bool pairs_as_stored(const lm_kv_shape *kv)
{
    return (kv->type == LM_F16 || kv->type == LM_BF16) && kv->k_dim % 2 == 0 && kv->v_dim % 16 == 0;
}

static workspace workspace_at(const lm_kv_shape *kv, uint32_t group, void *scratch, uint64_t *bytes)
{
    uint64_t  pairs = pairs_of(kv->k_dim), floats = pairs_as_stored(kv) ? 0 : LM_PAGE * sizeof(float);
    workspace w;

    *bytes = 0;
    w.keys = take(scratch, bytes, pairs * LM_PAGE * 4);
    w.values = take(scratch, bytes, (uint64_t)PAIRS * kv->v_dim * 4);
    w.q = take(scratch, bytes, TILE * group * pairs * 4);
    w.p = take(scratch, bytes, HEADS * PAIRS * 4);
    w.states = take(scratch, bytes, 2 * TILE * (uint64_t)group * sizeof(running));
    w.partial = take(scratch, bytes, TILE * (uint64_t)group * kv->v_dim * sizeof(float));
    w.float_keys = take(scratch, bytes, kv->k_dim * floats);
    w.float_values = take(scratch, bytes, kv->v_dim * floats);
    return w;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

/* Sixteen pairs of lanes `at`… of rows 2 pair and 2 pair + 1, each `stride` lanes long. */
typedef __m512i load_fn(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at);

/* Two vectors of sixteen halves, one after the other, as pairs. */
INLINE __m512i interleave(__m512i halves)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                                           19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, halves);
}

INLINE __m512i load_pairs(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    return _mm512_loadu_si512(p + 4 * (pair * stride + at));
}

INLINE __m512i load_f16(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    const uint8_t *row = p + 2 * (2 * pair * stride + at);
    __m512 even = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)row));
    __m512 odd = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(row + 2 * stride)));

    return interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

INLINE __m512i load_bf16(const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    const uint8_t *row = p + 2 * (2 * pair * stride + at);
    __m256i even = _mm256_loadu_si256((const void *)row), odd = _mm256_loadu_si256((const void *)(row + 2 * stride));

    return interleave(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
}

INLINE void pairs_of_rows(load_fn *load, uint32_t *to, const uint8_t *rows, uint32_t first, uint32_t last, uint32_t width)
{
    for (uint32_t pair = first; pair < last; pair++)
        for (uint32_t at = 0; at < width; at += 16)
            _mm512_storeu_si512(to + (uint64_t)pair * width + at, load(rows, pair, width, at));
}

/* Sixteen lanes of all keys of a page, [16][64] as stored, as pairs of positions: the values of latent attention. A pair lies together in
 * a row of keys already, so this turns words. */
INLINE void pairs_of_lanes(bool f16, uint32_t *to, const uint8_t *keys, uint64_t width)
{
    for (int half = 0; half < 2; half++, keys += LM_PAGE, to += 16 * width) {
        __m512i a[16], b[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m512i x = _mm512_loadu_si512(keys + 2 * LM_PAGE * i);
            if (f16)
                x = (__m512i)_mm512_cvtne2ps_pbh(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1)),
                                                 _mm512_cvtph_ps(_mm512_castsi512_si256(x)));
            a[i] = x;
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4) {        /* a[i + k]: word k of each quarter, rows i to i + 3 */
            a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
            a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
            a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
            a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m512i low = _mm512_shuffle_i32x4(a[k], a[4 + k], 0x44), high = _mm512_shuffle_i32x4(a[k], a[4 + k], 0xee);
            __m512i low2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0x44), high2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0xee);
            _mm512_storeu_si512(to + (uint64_t)k * width, _mm512_shuffle_i32x4(low, low2, 0x88));
            _mm512_storeu_si512(to + (uint64_t)(4 + k) * width, _mm512_shuffle_i32x4(low, low2, 0xdd));
            _mm512_storeu_si512(to + (uint64_t)(8 + k) * width, _mm512_shuffle_i32x4(high, high2, 0x88));
            _mm512_storeu_si512(to + (uint64_t)(12 + k) * width, _mm512_shuffle_i32x4(high, high2, 0xdd));
        }
    }
}

/* Rows of float32; the row that an odd number of them lacks is zero. */
static void pairs_of_floats(uint32_t *to, const float *rows, uint32_t first, uint32_t last, uint32_t n, uint32_t width)
{
    for (uint32_t pair = first; pair < last; pair++) {
        const float *row = rows + (uint64_t)2 * pair * width;
        for (uint32_t at = 0; at < width; at += 16) {
            __mmask16 lanes = vec512_lanes(width - at);
            __m512 even = _mm512_maskz_loadu_ps(lanes, row + at);
            __m512 odd = 2 * pair + 1 < n ? _mm512_maskz_loadu_ps(lanes, row + width + at) : _mm512_setzero_ps();
            _mm512_mask_storeu_epi32(to + (uint64_t)pair * width + at, lanes, interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even)));
        }
    }
}

static void make_pairs_as_stored(const lm_kv_shape *kv, const workspace *w, const uint8_t *keys, const uint8_t *values, uint32_t first,
                                 uint32_t last)
{
    bool f16 = kv->type == LM_F16;

    if (f16)
        pairs_of_rows(load_f16, w->keys, keys, 0, kv->k_dim / 2, LM_PAGE);
    else
        pairs_of_rows(load_bf16, w->keys, keys, 0, kv->k_dim / 2, LM_PAGE);
    if (kv->v_in_k)
        for (uint32_t i = 0; i < kv->v_dim; i += 16)
            if (f16)
                pairs_of_lanes(true, w->values + i, keys + (uint64_t)2 * LM_PAGE * i, kv->v_dim);
            else
                pairs_of_lanes(false, w->values + i, keys + (uint64_t)2 * LM_PAGE * i, kv->v_dim);
    else if (f16)
        pairs_of_rows(load_f16, w->values, values, first, last, kv->v_dim);
    else
        pairs_of_rows(load_bf16, w->values, values, first, last, kv->v_dim);
}

/* All keys, and values of positions [from, to) with those beside them. */
static void make_pairs(const lm_kv_shape *kv, const workspace *w, const uint8_t *keys, const uint8_t *values, uint32_t from, uint32_t to)
{
    uint32_t first = from / 2, last = (to + 1) / 2, lanes = pairs_of(kv->k_dim);

    if (pairs_as_stored(kv)) {
        make_pairs_as_stored(kv, w, keys, values, first, last);
        return;
    }
    lm_attention_turn_avx2(kv, keys, values, from, to, w->float_keys, w->float_values);
    pairs_of_floats(w->keys, w->float_keys, 0, lanes, kv->k_dim, LM_PAGE);
    pairs_of_floats(w->values, w->float_values, first, last, LM_PAGE, kv->v_dim);
}

/* Queries as pairs. */
static void begin(const lm_attention_args *a, const workspace *w)
{
    uint32_t dim = a->kv->k_dim, pairs = pairs_of(dim);
    uint32_t *y = w->q;

    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->group; g++, y += pairs)
            for (uint32_t i = 0; i < dim; i += 16) {
                const float *x = a->q + r * a->q_stride + (uint64_t)g * dim + i;
                __m256i half = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(vec512_lanes(dim - i), x));
                _mm256_mask_storeu_epi32(y + i / 2, (__mmask8)vec512_lanes(pairs - i / 2), half);
            }
}

/* ---- queries against one page ------------------------------------------------------------------------------------ */

/* A query's pairs, what it gives, and its place. */
typedef struct query {
    const uint32_t *q;
    float          *out;
    running        *state;
    uint32_t        g;
    sight           see;
} query;

/* What is read: pairs, or rows as stored; `next`: those of the page after it, to be asked for meanwhile, or this page's. */
typedef struct page_part {
    const uint8_t *keys, *values, *next_keys, *next_values;
} page_part;

/* Four cache lines that a step of rows as stored reads of 64 lanes: two of each row. */
INLINE void ask_for(load_fn *load, const uint8_t *p, uint64_t pair, uint64_t stride, uint64_t at)
{
    const char *row = (const char *)p + 2 * (2 * pair * stride + at);

    if (load == load_pairs)
        return;
    _mm_prefetch(row, _MM_HINT_T1);
    _mm_prefetch(row + 64, _MM_HINT_T1);
    _mm_prefetch(row + 2 * stride, _MM_HINT_T1);
    _mm_prefetch(row + 2 * stride + 64, _MM_HINT_T1);
}

INLINE __m512 dot(__m512 sum, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

INLINE void dots(load_fn *load, const query *x, const page_part *page, uint32_t pairs, const int heads, const int vectors,
                 __m512 s[HEADS][VECTORS])
{
    __m512 acc[HEADS][VECTORS];

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < pairs; i++) {
        __m512i k[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            k[v] = load(page->keys, i, LM_PAGE, 16u * (unsigned)v);
        ask_for(load, page->next_keys, i, LM_PAGE, 0);
#pragma GCC unroll 4
        for (int h = 0; h < heads; h++) {
            __m512i pair = _mm512_set1_epi32((int)x[h].q[i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[h][v] = dot(acc[h][v], k[v], pair);
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            s[h][v] = acc[h][v];
}

/* acc[h] += p * values, for one pair of positions; `seen`: the halves that are. */
INLINE void add_pair(load_fn *load, const uint32_t *p, const uint8_t *values, uint32_t width, uint32_t at, uint32_t pair, __mmask32 seen,
                     const int heads, const int vectors, __m512 acc[HEADS][4])
{
    __m512i x[4];

#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        x[v] = load(values, pair, width, at + 16u * (unsigned)v);
        if (seen != 0xffffffffu)
            x[v] = _mm512_maskz_mov_epi16(seen, x[v]);
    }
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++) {
        __m512i weights = _mm512_set1_epi32((int)p[h * PAIRS + (int)pair]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = dot(acc[h][v], x[v], weights);
    }
}

/* out[h] += sum of p[h][j] * values[j] over 16 * vectors lanes of which the last sixteen may be fewer, j rising. What is not seen is
 * not multiplied: it may be anything. */
INLINE void add_values(load_fn *load, const query *x, const uint32_t *p, const page_part *page, uint32_t width, uint32_t at,
                       const int heads, const int vectors, __mmask16 lanes)
{
    __m512 acc[HEADS][4];
    const uint8_t *values = page->values;
    uint32_t pair = x[0].see.from / 2, end = x[0].see.to / 2;

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = vectors == 1 ? _mm512_maskz_loadu_ps(lanes, x[h].out + at) : _mm512_loadu_ps(x[h].out + at + 16 * v);
    if (x[0].see.from % 2)
        add_pair(load, p, values, width, at, pair++, 0xaaaaaaaau, heads, vectors, acc);
    for (; pair < end; pair++) {
        if (vectors == 4)
            ask_for(load, page->next_values, pair, width, at);
        add_pair(load, p, values, width, at, pair, 0xffffffffu, heads, vectors, acc);
    }
    if (x[0].see.to % 2)
        add_pair(load, p, values, width, at, end, 0x55555555u, heads, vectors, acc);
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            if (vectors == 1)
                _mm512_mask_storeu_ps(x[h].out + at, lanes, acc[h][v]);
            else
                _mm512_storeu_ps(x[h].out + at + 16 * v, acc[h][v]);
        }
}

INLINE void weighted_values(load_fn *load, const query *x, const uint32_t *p, const page_part *page, uint32_t width, const int heads)
{
    uint32_t i = 0;

    for (; i + 64 <= width; i += 64)
        add_values(load, x, p, page, width, i, heads, 4, 0xffff);
    for (; i + 32 <= width; i += 32)
        add_values(load, x, p, page, width, i, heads, 2, 0xffff);
    for (; i < width; i += 16)
        add_values(load, x, p, page, width, i, heads, 1, vec512_lanes(width - i));
}

/* Scores to rounded probabilities: pairs p[32]. */
INLINE void probabilities(const lm_attention_args *a, const query *x, __m512 s[VECTORS], uint32_t *p)
{
    const __m512i one = _mm512_set1_epi32(0x3f803f80);
    __m512 sum = _mm512_setzero_ps();

#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        s[v] = score(a, s[v], x->g, x->see, 16u * (unsigned)v);
    raise_max(x->state, vec512_max(_mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3]))), x->out, a->kv->v_dim);
    __m512 max = _mm512_set1_ps(x->state->max);
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v += 2) {
        __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(vec512_exp_short(_mm512_sub_ps(s[v + 1], max)),
                                                       vec512_exp_short(_mm512_sub_ps(s[v], max)));
        _mm512_store_si512(p + 8 * v, rounded);
        sum = dot(sum, rounded, one);
    }
    x->state->sum += vec512_sum(sum);
}

INLINE void page_step(load_fn *load, const lm_attention_args *a, const workspace *w, const page_part *page, const query *x,
                      const int heads)
{
    __m512 s[HEADS][VECTORS];
    uint32_t pairs = pairs_of(a->kv->k_dim);

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            s[h][v] = _mm512_setzero_ps();
    if (x[0].see.to <= LM_PAGE / 2)
        dots(load, x, page, pairs, heads, VECTORS / 2, s);
    else
        dots(load, x, page, pairs, heads, VECTORS, s);
#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
        probabilities(a, &x[h], s[h], w->p + h * PAIRS);
    weighted_values(load, x, w->p, page, a->kv->v_dim, heads);
}

typedef void step_fn(const lm_attention_args *a, const workspace *w, const page_part *page, const query *x);

#define STEP(load, heads)                                                                                                  \
    static void load##_##heads(const lm_attention_args *a, const workspace *w, const page_part *page, const query *x)      \
    {                                                                                                                      \
        page_step(load, a, w, page, x, heads);                                                                             \
    }
STEP(load_pairs, 1) STEP(load_pairs, 2) STEP(load_pairs, 3) STEP(load_pairs, 4)
STEP(load_f16, 1) STEP(load_f16, 2) STEP(load_f16, 3) STEP(load_f16, 4)
STEP(load_bf16, 1) STEP(load_bf16, 2) STEP(load_bf16, 3) STEP(load_bf16, 4)

static step_fn *const of_pairs[HEADS] = { load_pairs_1, load_pairs_2, load_pairs_3, load_pairs_4 };
static step_fn *const of_f16[HEADS] = { load_f16_1, load_f16_2, load_f16_3, load_f16_4 };
static step_fn *const of_bf16[HEADS] = { load_bf16_1, load_bf16_2, load_bf16_3, load_bf16_4 };

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Queries that see the same keys, in fours. */
static void in_fours(const lm_attention_args *a, const workspace *w, running *states, const page_part *page, step_fn *const *step,
                     uint32_t start)
{
    uint32_t pairs = pairs_of(a->kv->k_dim), n = 0;
    query x[HEADS];
    sight see;

    for (uint32_t r = 0; r < a->rows; r++) {
        if (!sees(a, a->position + r, start, &see))
            continue;
        for (uint32_t g = 0; g < a->group; g++) {
            uint32_t i = r * a->group + g;
            if (n == HEADS || (n > 0 && (x[0].see.from != see.from || x[0].see.to != see.to))) {
                step[n - 1](a, w, page, x);
                n = 0;
            }
            x[n++] = (query){ w->q + (uint64_t)i * pairs, out_of(a, r, g), &states[i], g, see };
        }
    }
    if (n > 0)
        step[n - 1](a, w, page, x);
}

static const uint8_t *head_of(const lm_attention_args *a, uint32_t page, const uint8_t **values)
{
    return lm_attention_head_avx2(a->kv, a->base + a->pages[page] * a->page_stride, a->head, values);
}

static void page_against_rows(const lm_attention_args *a, const workspace *w, running *states, uint32_t number)
{
    uint32_t start = number * LM_PAGE, least, most;
    page_part page;

    if (!any_sees(a, start, &least, &most))
        return;
    page.keys = head_of(a, number, &page.values);
    if (pairs_as_stored(a->kv) && !a->kv->v_in_k && a->rows * a->group <= HEADS) {
        page.next_keys = head_of(a, number < (a->position + a->rows - 1) / LM_PAGE ? number + 1 : number, &page.next_values);
        in_fours(a, w, states, &page, a->kv->type == LM_F16 ? of_f16 : of_bf16, start);
        return;
    }
    make_pairs(a->kv, w, page.keys, page.values, least, most);
    page = (page_part){ .keys = (const void *)w->keys, .values = (const void *)w->values };
    in_fours(a, w, states, &page, of_pairs, start);
}

#include "kernels/x86/attention_run.h"

void lm_attention_kernels_init_avx512bf16(lm_attention_kernels *k)
{
    set_runs(k);
}
