/* attention_avx512bf16.c - attention over the pages of pages_avx2.c by dot products of bfloat16.
 *
 * Queries, keys, values and probabilities are rounded to the nearest bfloat16; products are exact, sums and
 * everything between the two products are float32. Two lanes of a key are adjacent, [k_dim/2][64][2], and so
 * are two positions of a value, [32][v_dim][2]: these are pairs of rows of a page as stored. If many queries
 * use a page, its pairs are made once; if few do, while it is read. Both give the same bits.
 *
 * Up to four queries to which the same keys of a page are visible, whether heads or rows, process it
 * together. Per query: 64 scores, their maximum, e^(score - maximum), the sum of the rounded values, then
 * pairs of values in ascending order. The result of a query depends on nothing else. */
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"

/* query rows that share a page; queries at once */
enum { TILE = 32, VECTORS = LM_PAGE / 16, PAIRS = LM_PAGE / 2, HEADS = 4 };

#include "kernels/x86/avx512/attention_512.h"
#include "kernels/x86/avx512/pairs_512.h"

/* ---- scratch memory of a worker
 * ---------------------------------------------------------------------------------- */

/* Pairs of a page, queries [TILE][group][k_dim/2], probabilities [HEADS][32], states [2][TILE][group], the
 * output of a range [TILE][group][v_dim]; a page as float32 if pairs cannot be made from the stored data
 * directly. */
typedef struct workspace {
    uint32_t *keys, *values, *q, *p;
    running  *states;
    float    *partial, *float_keys, *float_values;
} workspace;

static uint32_t pairs_of(uint32_t dim)
{
    return (dim + 1) / 2;
}

static bool of_halves(lm_dtype type)
{
    return type == LM_F16 || type == LM_BF16;
}

/* Pairs are made directly from rows of 16-bit floats, sixteen lanes at a time, and from blocks; from other
 * types by way of float32. */
static bool keys_as_stored(const lm_kv_shape *kv)
{
    return of_halves(kv->k_type) ? kv->k_dim % 2 == 0 : lm_dtype_of(kv->k_type)->quantized;
}

static bool values_as_stored(const lm_kv_shape *kv)
{
    if (kv->v_in_k)
        return of_halves(kv->k_type) && kv->v_dim % 16 == 0;
    return of_halves(kv->v_type) ? kv->v_dim % 16 == 0 : lm_dtype_of(kv->v_type)->quantized;
}

/* Return whether a page that few queries use can be read as stored. */
static bool read_as_stored(const lm_kv_shape *kv)
{
    return !kv->v_in_k && kv->k_type == kv->v_type && of_halves(kv->k_type) && keys_as_stored(kv) &&
           values_as_stored(kv);
}

static workspace workspace_at(const lm_kv_shape *kv, uint32_t group, void *scratch, uint64_t *bytes)
{
    uint64_t  pairs = pairs_of(kv->k_dim), floats = LM_PAGE * sizeof(float);
    bool float_values = !values_as_stored(kv),
         float_keys = !keys_as_stored(kv) || (kv->v_in_k && float_values);
    workspace w;

    *bytes = 0;
    w.keys = take(scratch, bytes, pairs * LM_PAGE * 4);
    w.values = take(scratch, bytes, (uint64_t)PAIRS * kv->v_dim * 4);
    w.q = take(scratch, bytes, TILE * group * pairs * 4);
    w.p = take(scratch, bytes, HEADS * PAIRS * 4);
    w.states = take(scratch, bytes, 2 * TILE * (uint64_t)group * sizeof(running));
    w.partial = take(scratch, bytes, TILE * (uint64_t)group * kv->v_dim * sizeof(float));
    w.float_keys = take(scratch, bytes, float_keys ? kv->k_dim * floats : 0);
    w.float_values = take(scratch, bytes, float_values ? kv->v_dim * floats : 0);
    return w;
}

/* The data of a page: pairs, or rows as stored. `next`: the data of the next page, to be prefetched
 * meanwhile; else of this page. */
typedef struct page_part {
    const uint8_t *keys, *values, *next_keys, *next_values;
} page_part;

/* ---- pairs
 * ------------------------------------------------------------------------------------------------------- */

static void make_key_pairs(const lm_kv_shape *kv, const workspace *w, const uint8_t *keys)
{
    uint32_t *to = w->keys, dim = kv->k_dim;

    switch (keys_as_stored(kv) ? (int)kv->k_type : -1) {
    case LM_F16: pairs_of_rows(load_f16, to, keys, 0, dim / 2, LM_PAGE); break;
    case LM_BF16: pairs_of_rows(load_bf16, to, keys, 0, dim / 2, LM_PAGE); break;
    case LM_Q8_0: pairs_of_key_blocks(LM_Q8_0, to, keys, dim); break;
    case LM_Q4_0: pairs_of_key_blocks(LM_Q4_0, to, keys, dim); break;
    case LM_Q4_1: pairs_of_key_blocks(LM_Q4_1, to, keys, dim); break;
    case LM_Q5_0: pairs_of_key_blocks(LM_Q5_0, to, keys, dim); break;
    case LM_Q5_1: pairs_of_key_blocks(LM_Q5_1, to, keys, dim); break;
    default:
        lm_attention_keys_avx2(kv, keys, w->float_keys);
        pairs_of_floats(to, w->float_keys, 0, pairs_of(dim), dim, LM_PAGE);
    }
}

/* Make the pairs of the values of latent attention. */
static void make_pairs_of_latents(const lm_kv_shape *kv, const workspace *w, const uint8_t *keys,
                                  uint32_t from, uint32_t to)
{
    if (values_as_stored(kv)) {
        for (uint32_t i = 0; i < kv->v_dim; i += 16)
            if (kv->k_type == LM_F16)
                pairs_of_lanes(true, w->values + i, keys + (uint64_t)2 * LM_PAGE * i, kv->v_dim);
            else
                pairs_of_lanes(false, w->values + i, keys + (uint64_t)2 * LM_PAGE * i, kv->v_dim);
        return;
    }
    if (keys_as_stored(kv))                      /* else they are float32 already */
        lm_attention_keys_avx2(kv, keys, w->float_keys);
    lm_attention_values_avx2(kv, NULL, from, to, w->float_keys, w->float_values);
    pairs_of_floats(w->values, w->float_values, from / 2, (to + 1) / 2, LM_PAGE, kv->v_dim);
}

/* Make the value pairs that contain positions [from, to). */
static void make_value_pairs(const lm_kv_shape *kv, const workspace *w, const uint8_t *values, uint32_t from,
                             uint32_t to)
{
    uint32_t first = from / 2, last = (to + 1) / 2, dim = kv->v_dim;

    switch (values_as_stored(kv) ? (int)kv->v_type : -1) {
    case LM_F16: pairs_of_rows(load_f16, w->values, values, first, last, dim); break;
    case LM_BF16: pairs_of_rows(load_bf16, w->values, values, first, last, dim); break;
    case LM_Q8_0: pairs_of_value_blocks(LM_Q8_0, w->values, values, first, last, dim); break;
    case LM_Q4_0: pairs_of_value_blocks(LM_Q4_0, w->values, values, first, last, dim); break;
    case LM_Q4_1: pairs_of_value_blocks(LM_Q4_1, w->values, values, first, last, dim); break;
    case LM_Q5_0: pairs_of_value_blocks(LM_Q5_0, w->values, values, first, last, dim); break;
    case LM_Q5_1: pairs_of_value_blocks(LM_Q5_1, w->values, values, first, last, dim); break;
    default:
        lm_attention_values_avx2(kv, values, from, to, NULL, w->float_values);
        pairs_of_floats(w->values, w->float_values, first, last, LM_PAGE, dim);
    }
}

static void make_pairs(const lm_kv_shape *kv, const workspace *w, const page_part *page, uint32_t from,
                       uint32_t to)
{
    make_key_pairs(kv, w, page->keys);
    if (kv->v_in_k)
        make_pairs_of_latents(kv, w, page->keys, from, to);
    else
        make_value_pairs(kv, w, page->values, from, to);
}

/* Convert the queries to pairs. */
static void begin(const lm_attention_args *a, const workspace *w)
{
    uint32_t dim = a->kv->k_dim, pairs = pairs_of(dim), lanes = lm_hadamard_of_keys(a->kv);
    uint32_t *y = w->q;
    float some[64];

    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->group; g++, y += pairs)
            for (uint32_t i = 0; i < dim; i += 16) {
                const float *x = a->q + r * a->q_stride + (uint64_t)g * dim + i;
                if (lanes && i % lanes == 0) {
                    memcpy(some, x, lanes * sizeof *some);
                    hadamard(some, lanes, lanes);
                }
                __m512 q = _mm512_maskz_loadu_ps(vec512_lanes(dim - i), lanes ? some + i % lanes : x);
                _mm256_mask_storeu_epi32(y + i / 2, (__mmask8)vec512_lanes(pairs - i / 2),
                                         (__m256i)_mm512_cvtneps_pbh(q));
            }
}

/* ---- queries against one page
 * ------------------------------------------------------------------------------------ */

/* A query's pairs, its output and state, its head in the group, and the keys visible to it. */
typedef struct query {
    const uint32_t *q;
    float          *out;
    running        *state;
    uint32_t        g;
    sight           see;
} query;

/* Prefetch the four cache lines that a step on rows as stored reads for 64 lanes: two per row. */
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

INLINE void dots(load_fn *load, const query *x, const page_part *page, uint32_t pairs, const int heads,
                 const int vectors, __m512 s[HEADS][VECTORS])
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

/* acc[h] += p * values, for one pair of positions. `seen`: mask of the 16-bit halves whose positions are
 * visible. */
INLINE void add_pair(load_fn *load, const uint32_t *p, const uint8_t *values, uint32_t width, uint32_t at,
                     uint32_t pair, __mmask32 seen, const int heads, const int vectors, __m512 acc[HEADS][4])
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

/* out[h] += sum of p[h][j] * values[j] over 16 * vectors lanes, of which the last sixteen may be fewer, j
 * ascending. Values that are not visible are not multiplied: they may be anything. */
INLINE void add_values(load_fn *load, const query *x, const uint32_t *p, const page_part *page,
                       uint32_t width, uint32_t at, const int heads, const int vectors, __mmask16 lanes)
{
    __m512 acc[HEADS][4];
    const uint8_t *values = page->values;
    uint32_t pair = x[0].see.from / 2, end = x[0].see.to / 2;

#pragma GCC unroll 4
    for (int h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[h][v] = vectors == 1 ? _mm512_maskz_loadu_ps(lanes, x[h].out + at)
                                     : _mm512_loadu_ps(x[h].out + at + 16 * v);
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

INLINE void weighted_values(load_fn *load, const query *x, const uint32_t *p, const page_part *page,
                            uint32_t width, const int heads)
{
    uint32_t i = 0;

    for (; i + 64 <= width; i += 64)
        add_values(load, x, p, page, width, i, heads, 4, 0xffff);
    for (; i + 32 <= width; i += 32)
        add_values(load, x, p, page, width, i, heads, 2, 0xffff);
    for (; i < width; i += 16)
        add_values(load, x, p, page, width, i, heads, 1, vec512_lanes(width - i));
}

/* Convert scores to rounded probabilities, as pairs p[32]. */
INLINE void probabilities(const lm_attention_args *a, const query *x, __m512 s[VECTORS], uint32_t *p)
{
    const __m512i one = _mm512_set1_epi32(0x3f803f80);
    __m512 sum = _mm512_setzero_ps();

#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        s[v] = score(a, s[v], x->g, x->see, 16u * (unsigned)v);
    raise_max(x->state, vec512_max(_mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3]))),
              x->out, a->kv->v_dim);
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

INLINE void page_step(load_fn *load, const lm_attention_args *a, const workspace *w, const page_part *page,
                      const query *x, const int heads)
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

#define STEP(load, heads)                                                                             \
    static void load##_##heads(const lm_attention_args *a, const workspace *w, const page_part *page, \
                               const query *x)                                                        \
    {                                                                                                 \
        page_step(load, a, w, page, x, heads);                                                        \
    }
STEP(load_pairs, 1) STEP(load_pairs, 2) STEP(load_pairs, 3) STEP(load_pairs, 4)
STEP(load_f16, 1) STEP(load_f16, 2) STEP(load_f16, 3) STEP(load_f16, 4)
STEP(load_bf16, 1) STEP(load_bf16, 2) STEP(load_bf16, 3) STEP(load_bf16, 4)

static step_fn *const of_pairs[HEADS] = { load_pairs_1, load_pairs_2, load_pairs_3, load_pairs_4 };
static step_fn *const of_f16[HEADS] = { load_f16_1, load_f16_2, load_f16_3, load_f16_4 };
static step_fn *const of_bf16[HEADS] = { load_bf16_1, load_bf16_2, load_bf16_3, load_bf16_4 };

/* ---- tiles
 * ------------------------------------------------------------------------------------------------------- */

/* Process a page for all queries, up to four at a time to which the same keys are visible. */
static void in_fours(const lm_attention_args *a, const workspace *w, running *states, const page_part *page,
                     step_fn *const *step, uint32_t start)
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

static void page_against_rows(const lm_attention_args *a, const workspace *w, running *states,
                              uint32_t number)
{
    uint32_t start = number * LM_PAGE, min, max;
    page_part page;

    if (!any_sees(a, start, &min, &max))
        return;
    page.keys = head_of(a, number, &page.values);
    if (read_as_stored(a->kv) && a->rows * a->group <= HEADS) {
        page.next_keys = head_of(a, number < (a->position + a->rows - 1) / LM_PAGE ? number + 1 : number,
                                 &page.next_values);
        in_fours(a, w, states, &page, a->kv->k_type == LM_F16 ? of_f16 : of_bf16, start);
        return;
    }
    make_pairs(a->kv, w, &page, min, max);
    page = (page_part){ .keys = (const void *)w->keys, .values = (const void *)w->values };
    in_fours(a, w, states, &page, of_pairs, start);
}

#include "kernels/x86/attention_run.h"

void lm_attention_kernels_init_avx512bf16(lm_attention_kernels *k)
{
    set_runs(k);
}
