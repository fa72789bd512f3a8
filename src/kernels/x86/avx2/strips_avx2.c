/* strips_avx2.c - integer arithmetic on strips of eight rows: quantised weights times the rows of q8_rows.h.
 *
 * One output is one lane. For each unit of 32 columns, in rising order: y += w's d * (integer sum * x's d) + w's m * (sum of
 * x). No order depends on how many rows of x there are. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "tensor/blocks.h"

enum { R = 8, TOKENS = 4 };

#define INLINE static inline __attribute__((always_inline))

/* What the codes of a type allow: how many products fit in 16 bits. */
typedef enum kind {
    UP_TO_31,                        /* eight products */
    UP_TO_63,                        /* four */
    SIGNED,                          /* two, and the sign of the weight moves to x */
} kind;

/* A unit in registers: w[v] holds columns 4v..4v+3 of each row. Types with a scale for each 16 columns use both. */
typedef struct unit {
    __m256i w[8];
    __m256  d[2], m[2];
} unit;

/* ---- reading units ----------------------------------------------------------------------------------------------- */

INLINE __m256 f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256 i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}

INLINE __m256 times(__m256 v, float f)
{
    return _mm256_mul_ps(v, _mm256_set1_ps(f));
}

INLINE __m256i plane(const uint8_t *p, int v)
{
    return _mm256_loadu_si256((const void *)(p + 32 * v));
}

INLINE void nibbles(const uint8_t *p, __m256i w[8])
{
    const __m256i mask = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m256i b = plane(p, v);
        w[v] = _mm256_and_si256(b, mask);
        w[v + 4] = _mm256_and_si256(_mm256_srli_epi16(b, 4), mask);
    }
}

/* The two-bit fields moved to bits `to` and `to + 1`. */
INLINE void pairs(const uint8_t *p, __m256i w[8], int to, int add)
{
    const __m256i mask = _mm256_set1_epi8((char)(3 << to));
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        __m256i b = plane(p, v / 4);
        int shift = 2 * (v % 4) - to;
        b = _mm256_and_si256(shift >= 0 ? _mm256_srli_epi16(b, shift) : _mm256_slli_epi16(b, -shift), mask);
        w[v] = add ? _mm256_or_si256(w[v], b) : b;
    }
}

INLINE void bits(const uint8_t *p, __m256i w[8], int to)
{
    const __m256i mask = _mm256_set1_epi8((char)(1 << to));
    __m256i b = plane(p, 0);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        __m256i moved = v >= to ? _mm256_srli_epi16(b, v - to) : _mm256_slli_epi16(b, to - v);
        w[v] = _mm256_or_si256(w[v], _mm256_and_si256(moved, mask));
    }
}

INLINE void look_up(__m256i w[8], __m128i values)
{
    __m256i table = _mm256_broadcastsi128_si256(values);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        w[v] = _mm256_shuffle_epi8(table, w[v]);
}

INLINE void load_q4_0(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = times(u->d[0], -8.0f);
    nibbles(p + 2 * R, u->w);
}

INLINE void load_q4_1(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = f16(p + 2 * R);
    nibbles(p + 4 * R, u->w);
}

INLINE void load_q5_0(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = times(u->d[0], -16.0f);
    nibbles(p + 2 * R, u->w);
    bits(p + 18 * R, u->w, 4);
}

INLINE void load_q5_1(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = f16(p + 2 * R);
    nibbles(p + 4 * R, u->w);
    bits(p + 20 * R, u->w, 4);
}

INLINE void load_q8_0(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        u->w[v] = plane(p + 2 * R, v);
}

INLINE void load_iq4_nl(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    nibbles(p + 2 * R, u->w);
    look_up(u->w, _mm_loadu_si128((const void *)lm_iq4_values));
}

INLINE void load_iq4_xs(const uint8_t *p, const uint8_t *head, unit *u)
{
    u->d[0] = _mm256_mul_ps(f16(head), i8(p));
    nibbles(p + R, u->w);
    look_up(u->w, _mm_loadu_si128((const void *)lm_iq4_values));
}

/* Values + 12, so that they have no sign. The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE void load_mxfp4(const uint8_t *p, const uint8_t *head, unit *u)
{
    const __m256i two = _mm256_set1_epi32(2);
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    (void)head;
    u->d[0] = _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(two, e)));
    u->m[0] = times(u->d[0], -12.0f);
    nibbles(p + R, u->w);
    look_up(u->w, _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

INLINE void scale_min(const uint8_t *p, const uint8_t *head, unit *u)
{
    u->d[0] = _mm256_mul_ps(f16(head), u8(p));
    u->m[0] = times(_mm256_mul_ps(f16(head + 2 * R), u8(p + R)), -1.0f);
}

INLINE void load_q4_k(const uint8_t *p, const uint8_t *head, unit *u)
{
    scale_min(p, head, u);
    nibbles(p + 2 * R, u->w);
}

INLINE void load_q5_k(const uint8_t *p, const uint8_t *head, unit *u)
{
    scale_min(p, head, u);
    nibbles(p + 2 * R, u->w);
    bits(p + 18 * R, u->w, 4);
}

INLINE void load_q6_k(const uint8_t *p, const uint8_t *head, unit *u)
{
    for (int h = 0; h < 2; h++) {
        u->d[h] = _mm256_mul_ps(f16(head), i8(p + h * R));
        u->m[h] = times(u->d[h], -32.0f);
    }
    nibbles(p + 2 * R, u->w);
    pairs(p + 18 * R, u->w, 4, 1);
}

INLINE void load_q2_k(const uint8_t *p, const uint8_t *head, unit *u)
{
    for (int h = 0; h < 2; h++) {
        __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + h * R)));
        __m256 scale = _mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15)));
        __m256 min = _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4));
        u->d[h] = _mm256_mul_ps(f16(head), scale);
        u->m[h] = times(_mm256_mul_ps(f16(head + 2 * R), min), -1.0f);
    }
    pairs(p + 2 * R, u->w, 0, 0);
}

INLINE void load_q3_k(const uint8_t *p, const uint8_t *head, unit *u)
{
    for (int h = 0; h < 2; h++) {
        u->d[h] = _mm256_mul_ps(f16(head), i8(p + h * R));
        u->m[h] = times(u->d[h], -4.0f);
    }
    pairs(p + 2 * R, u->w, 0, 0);
    bits(p + 10 * R, u->w, 2);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

INLINE __m256i four(const int8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm256_set1_epi32(v);
}

/* Sixteen columns: w[0..3] with x[0..15]. */
INLINE __m256i dot16(const __m256i *w, const int8_t *x, const kind k)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i p[4];

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m256i b = four(x + 4 * v);
        p[v] = k == SIGNED ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[v]), _mm256_sign_epi8(b, w[v]))
                           : _mm256_maddubs_epi16(w[v], b);
    }
    if (k == UP_TO_31)
        return _mm256_madd_epi16(_mm256_add_epi16(_mm256_add_epi16(p[0], p[1]), _mm256_add_epi16(p[2], p[3])), ones);
    if (k == UP_TO_63)
        return _mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi16(p[0], p[1]), ones),
                                _mm256_madd_epi16(_mm256_add_epi16(p[2], p[3]), ones));
    return _mm256_add_epi32(_mm256_add_epi32(_mm256_madd_epi16(p[0], ones), _mm256_madd_epi16(p[1], ones)),
                            _mm256_add_epi32(_mm256_madd_epi16(p[2], ones), _mm256_madd_epi16(p[3], ones)));
}

/* Both halves, or one, of a unit times a block: x's d * (high + low / 128). */
INLINE __m256 product(const unit *u, const lm_q8_row *x, uint64_t b, const int half, const kind k, const int halves)
{
    const lm_q8_block *high = &x->high[b], *low = &x->low[b];
    const int at = 16 * half;
    __m256i sum = dot16(u->w + 4 * half, high->q + at, k);

    if (!halves)
        sum = _mm256_add_epi32(sum, dot16(u->w + 4, high->q + 16, k));
    __m256 v = _mm256_cvtepi32_ps(sum);
    if (__builtin_expect(lm_q8_is_wide(x, b), 0)) {
        sum = dot16(u->w + 4 * half, low->q + at, k);
        if (!halves)
            sum = _mm256_add_epi32(sum, dot16(u->w + 4, low->q + 16, k));
        v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(0.0078125f), v);
    }
    return _mm256_mul_ps(v, _mm256_set1_ps(high->d));
}

/* acc += the unit times columns 32b.. of one row of x. */
INLINE __m256 unit_step(__m256 acc, const unit *u, const lm_q8_row *x, uint64_t b, const kind k, const int halves)
{
    acc = _mm256_fmadd_ps(product(u, x, b, 0, k, halves), u->d[0], acc);
    if (halves) {
        acc = _mm256_fmadd_ps(product(u, x, b, 1, k, halves), u->d[1], acc);
        acc = _mm256_fmadd_ps(u->m[0], _mm256_broadcast_ss(&x->high[b].half_sum[0]), acc);
        return _mm256_fmadd_ps(u->m[1], _mm256_broadcast_ss(&x->high[b].half_sum[1]), acc);
    }
    return k == SIGNED ? acc : _mm256_fmadd_ps(u->m[0], _mm256_broadcast_ss(&x->high[b].sum), acc);
}

typedef void load_fn(const uint8_t *p, const uint8_t *head, unit *u);

/* A type, as constants that every inlined loop sees. */
typedef struct traits {
    load_fn *load;
    kind     k;
    int      halves;
    uint32_t unit, head;             /* bytes */
} traits;

/* One strip against `tokens` rows of x. */
INLINE void tile(const traits t, const uint8_t *p, const lm_q8_row *x, uint64_t cols, const int tokens, __m256 *y)
{
    __m256 acc[TOKENS];
    const uint8_t *head = p;

#pragma GCC unroll 4
    for (int j = 0; j < tokens; j++)
        acc[j] = _mm256_setzero_ps();
    for (uint64_t b = 0; b < cols / 32; b++) {
        unit u;
        if (t.head && b % 8 == 0) {
            head = p;
            p += t.head;
        }
        t.load(p, head, &u);
        p += t.unit;
#pragma GCC unroll 4
        for (int j = 0; j < tokens; j++)
            acc[j] = unit_step(acc[j], &u, &x[j], b, t.k, t.halves);
    }
#pragma GCC unroll 4
    for (int j = 0; j < tokens; j++)
        y[j] = acc[j];
}

/* Outputs o.. of row t; the last strip may have fewer than eight. */
static void put(const lm_matmul_args *a, uint64_t t, uint64_t o, __m256 v)
{
    float lanes[R];

    if (o + R <= a->last) {
        if (a->bias)
            v = _mm256_add_ps(v, _mm256_loadu_ps(a->bias + o));
        v = _mm256_mul_ps(v, _mm256_set1_ps(a->scale));
        if (a->add)
            v = _mm256_add_ps(v, _mm256_loadu_ps(a->add + t * a->add_stride + o));
        _mm256_storeu_ps(a->y + t * a->y_stride + o, v);
        return;
    }
    _mm256_storeu_ps(lanes, v);
    for (uint64_t i = 0; o + i < a->last; i++)
        lm_matmul_store(a, t, o + i, lanes[i]);
}

/* A group of strips that fits in the second-level cache is used for all rows of x before the next one. */
INLINE void run(const lm_matmul_args *a, const traits t)
{
    uint64_t strip_bytes = a->cols / 32 * t.unit + a->cols / 256 * t.head, group = R * (1 + (128u << 10) / (strip_bytes + 1));

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t r = 0; r < a->n; r += TOKENS) {
            int tokens = a->n - r < TOKENS ? (int)(a->n - r) : TOKENS;
            lm_q8_row x[TOKENS];
            for (int j = 0; j < tokens; j++)
                x[j] = lm_q8_row_at((const uint8_t *)a->x + (r + (uint64_t)j) * a->x_stride, a->cols);
            for (uint64_t o = from; o < to; o += R) {
                const uint8_t *strip = (const uint8_t *)a->w + o / R * strip_bytes;
                __m256 y[TOKENS];
                switch (tokens) {
                case 4: tile(t, strip, x, a->cols, 4, y); break;
                case 3: tile(t, strip, x, a->cols, 3, y); break;
                case 2: tile(t, strip, x, a->cols, 2, y); break;
                default: tile(t, strip, x, a->cols, 1, y);
                }
                for (int j = 0; j < tokens; j++)
                    put(a, r + (uint64_t)j, o, y[j]);
            }
        }
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* id, word, kind, scales for each 16, bytes of a unit and of the numbers ahead of eight, of one row */
#define STRIPS(X)                           \
    X(LM_Q4_0, q4_0, UP_TO_31, 0, 18, 0)    \
    X(LM_Q4_1, q4_1, UP_TO_31, 0, 20, 0)    \
    X(LM_Q5_0, q5_0, UP_TO_31, 0, 22, 0)    \
    X(LM_Q5_1, q5_1, UP_TO_31, 0, 24, 0)    \
    X(LM_Q8_0, q8_0, SIGNED, 0, 34, 0)      \
    X(LM_IQ4_NL, iq4_nl, SIGNED, 0, 18, 0)  \
    X(LM_MXFP4, mxfp4, UP_TO_31, 0, 17, 0)  \
    X(LM_Q2_K, q2_k, UP_TO_31, 1, 10, 4)    \
    X(LM_Q3_K, q3_k, UP_TO_31, 1, 14, 2)    \
    X(LM_Q4_K, q4_k, UP_TO_31, 0, 18, 4)    \
    X(LM_Q5_K, q5_k, UP_TO_31, 0, 22, 4)    \
    X(LM_Q6_K, q6_k, UP_TO_63, 1, 26, 2)    \
    X(LM_IQ4_XS, iq4_xs, SIGNED, 0, 17, 2)

#define X(id, word, kind, halves, unit, head)                                                                \
    static void run_##word(const lm_matmul_args *a)                                                          \
    {                                                                                                        \
        run(a, (traits){ load_##word, kind, halves, (unit)*R, (head)*R });                                   \
    }                                                                                                        \
    static uint64_t bytes_##word(uint64_t rows, uint64_t cols)                                               \
    {                                                                                                        \
        return lm_strip_packed_bytes(lm_strip_of(id), R, rows, cols);                                        \
    }                                                                                                        \
    static void pack_##word(void *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t from, uint64_t to) \
    {                                                                                                        \
        lm_strip_pack(lm_strip_of(id), R, dst, w, rows, cols, from, to);                                     \
    }                                                                                                        \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)            \
    {                                                                                                        \
        (void)rows;                                                                                          \
        lm_strip_row(lm_strip_of(id), R, dst, w, cols, row);                                                 \
    }                                                                                                        \
    static const lm_matmul strips_##word = {                                                                 \
        .name = #word " strips avx2",                                                                        \
        .x = &lm_activation_q8_avx2,                                                                          \
        .arithmetic = LM_ARITHMETIC_INT8,                                                                    \
        .row_group = R,                                                                                      \
        .packed_bytes = bytes_##word,                                                                        \
        .pack = pack_##word,                                                                                 \
        .run = run_##word,                                                                                   \
        .row = row_##word,                                                                                   \
    };
STRIPS(X)
#undef X

void lm_strips_init_avx2(lm_kernels *k)
{
#define X(id, word, kind, halves, unit, head) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
