/* strips_avx512.c - integer arithmetic on strips of sixteen rows: quantised weights times 15-bit activations by vpdpbusd.
 *
 * One output is one lane. For each unit of 32 columns, in rising order: y += d * dx * (integer sum) + m * sum(x). No order
 * depends on how many rows of x there are; integer sums are exact in any order. Codes with a sign are read with an offset
 * that m takes back. */
#include <immintrin.h>

#include "kernels/strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "tensor/blocks.h"

enum { R = 16, TOKENS = 6 };

#define INLINE static inline __attribute__((always_inline))

/* A unit in registers: w[v] holds columns 4v..4v+3 of each row. Types with a scale for each 16 columns use both. */
typedef struct unit {
    __m512i w[8];
    __m512  d[2], m[2];
} unit;

/* ---- reading units ----------------------------------------------------------------------------------------------- */

INLINE __m512 f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}

INLINE __m512 i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}

INLINE __m512 times(__m512 v, float f)
{
    return _mm512_mul_ps(v, _mm512_set1_ps(f));
}

INLINE __m512i plane(const uint8_t *p, int v)
{
    return _mm512_loadu_si512(p + 64 * v);
}

INLINE void nibbles(const uint8_t *p, __m512i w[8])
{
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m512i b = plane(p, v);
        w[v] = _mm512_and_si512(b, mask);
        w[v + 4] = _mm512_and_si512(_mm512_srli_epi16(b, 4), mask);
    }
}

/* The two-bit fields moved to bits `to` and `to + 1`. */
INLINE void pairs(const uint8_t *p, __m512i w[8], int to, int add)
{
    const __m512i mask = _mm512_set1_epi8((char)(3 << to));
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        __m512i b = plane(p, v / 4);
        int shift = 2 * (v % 4) - to;
        b = shift >= 0 ? _mm512_srli_epi16(b, shift) : _mm512_slli_epi16(b, -shift);
        b = _mm512_and_si512(b, mask);
        w[v] = add ? _mm512_or_si512(w[v], b) : b;
    }
}

INLINE void bits(const uint8_t *p, __m512i w[8], int to)
{
    const __m512i mask = _mm512_set1_epi8((char)(1 << to));
    __m512i b = plane(p, 0);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        __m512i moved = v >= to ? _mm512_srli_epi16(b, v - to) : _mm512_slli_epi16(b, to - v);
        w[v] = _mm512_or_si512(w[v], _mm512_and_si512(moved, mask));
    }
}

INLINE void look_up(__m512i w[8], __m128i values)
{
    __m512i table = _mm512_broadcast_i32x4(values);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        w[v] = _mm512_shuffle_epi8(table, w[v]);
}

/* The sixteen IQ4 values + 128. */
INLINE __m128i iq4_unsigned(void)
{
    return _mm_xor_si128(_mm_loadu_si128((const void *)lm_iq4_values), _mm_set1_epi8((char)0x80));
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
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = times(u->d[0], -128.0f);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        u->w[v] = _mm512_xor_si512(plane(p + 2 * R, v), sign);
}

INLINE void load_iq4_nl(const uint8_t *p, const uint8_t *head, unit *u)
{
    (void)head;
    u->d[0] = f16(p);
    u->m[0] = times(u->d[0], -128.0f);
    nibbles(p + 2 * R, u->w);
    look_up(u->w, iq4_unsigned());
}

INLINE void load_iq4_xs(const uint8_t *p, const uint8_t *head, unit *u)
{
    u->d[0] = _mm512_mul_ps(f16(head), i8(p));
    u->m[0] = times(u->d[0], -128.0f);
    nibbles(p + R, u->w);
    look_up(u->w, iq4_unsigned());
}

/* Values + 12. The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE void load_mxfp4(const uint8_t *p, const uint8_t *head, unit *u)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    (void)head;
    u->d[0] = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
    u->m[0] = times(u->d[0], -12.0f);
    nibbles(p + R, u->w);
    look_up(u->w, _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

INLINE void scale_min(const uint8_t *p, const uint8_t *head, unit *u)
{
    u->d[0] = _mm512_mul_ps(f16(head), u8(p));
    u->m[0] = times(_mm512_mul_ps(f16(head + 2 * R), u8(p + R)), -1.0f);
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
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        u->d[h] = _mm512_mul_ps(f16(head), i8(p + h * R));
        u->m[h] = times(u->d[h], -32.0f);
    }
    nibbles(p + 2 * R, u->w);
    pairs(p + 18 * R, u->w, 4, 1);
}

INLINE void load_q2_k(const uint8_t *p, const uint8_t *head, unit *u)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p + h * R)));
        __m512 scale = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
        __m512 min = _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4));
        u->d[h] = _mm512_mul_ps(f16(head), scale);
        u->m[h] = times(_mm512_mul_ps(f16(head + 2 * R), min), -1.0f);
    }
    pairs(p + 2 * R, u->w, 0, 0);
}

INLINE void load_q3_k(const uint8_t *p, const uint8_t *head, unit *u)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        u->d[h] = _mm512_mul_ps(f16(head), i8(p + h * R));
        u->m[h] = times(u->d[h], -4.0f);
    }
    pairs(p + 2 * R, u->w, 0, 0);
    bits(p + 10 * R, u->w, 2);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* acc += w * four activations in every lane. Written out because the compiler would load and broadcast them by an
 * instruction of its own. */
INLINE __m512i dot(__m512i acc, __m512i w, const int8_t *x)
{
    typedef int32_t __attribute__((may_alias, aligned(1))) quad;
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const quad *)x));
    return acc;
}

INLINE __m512i dot16(const __m512i *w, const int8_t *x)
{
    __m512i acc = dot(_mm512_setzero_si512(), w[0], x);
    return dot(dot(dot(acc, w[1], x + 4), w[2], x + 8), w[3], x + 12);
}

/* The same with both parts of the codes of x. */
INLINE __m512i both16(const __m512i *w, const int8_t *x)
{
    return _mm512_add_epi32(_mm512_slli_epi32(dot16(w, x), 7), dot16(w, x + 32));
}

/* acc += the unit times columns 32b.. of one row of x. */
INLINE __m512 unit_step(__m512 acc, const unit *u, const lm_q15_row *x, uint64_t b, const int halves)
{
    __m512i low = both16(u->w, x->q + 64 * b), high = both16(u->w + 4, x->q + 64 * b + 16);
    __m512 dx = _mm512_set1_ps(x->d[b]);

    if (halves) {
        acc = _mm512_fmadd_ps(_mm512_mul_ps(u->d[0], dx), _mm512_cvtepi32_ps(low), acc);
        acc = _mm512_fmadd_ps(_mm512_mul_ps(u->d[1], dx), _mm512_cvtepi32_ps(high), acc);
        acc = _mm512_fmadd_ps(u->m[0], _mm512_set1_ps(x->half[2 * b]), acc);
        return _mm512_fmadd_ps(u->m[1], _mm512_set1_ps(x->half[2 * b + 1]), acc);
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps(u->d[0], dx), _mm512_cvtepi32_ps(_mm512_add_epi32(low, high)), acc);
    return _mm512_fmadd_ps(u->m[0], _mm512_set1_ps(x->sum[b]), acc);
}

typedef void load_fn(const uint8_t *p, const uint8_t *head, unit *u);

/* A type, as constants that every inlined loop sees. */
typedef struct traits {
    load_fn *load;
    int      halves;
    uint32_t unit, head;             /* bytes */
} traits;

/* One strip against `tokens` rows of x. */
INLINE void tile(const traits t, const uint8_t *p, const lm_q15_row *x, uint64_t cols, const int tokens, __m512 *y)
{
    __m512 acc[TOKENS];
    const uint8_t *head = p;

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        acc[j] = _mm512_setzero_ps();
    for (uint64_t b = 0; b < cols / 32; b++) {
        unit u;
        if (t.head && b % 8 == 0) {
            head = p;
            p += t.head;
        }
        t.load(p, head, &u);
        p += t.unit;
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            acc[j] = unit_step(acc[j], &u, &x[j], b, t.halves);
    }
#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        y[j] = acc[j];
}

/* Outputs o.. of row t; the last strip may have fewer than sixteen. */
static void put(const lm_matmul_args *a, uint64_t t, uint64_t o, __m512 v)
{
    __mmask16 lanes = a->last - o < R ? (__mmask16)((1u << (a->last - o)) - 1) : (__mmask16)0xffff;

    if (a->bias)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, a->bias + o));
    v = _mm512_mul_ps(v, _mm512_set1_ps(a->scale));
    if (a->add)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, a->add + t * a->add_stride + o));
    _mm512_mask_storeu_ps(a->y + t * a->y_stride + o, lanes, v);
}

/* Tokens are cut into tiles of nearly equal size. A group of strips that fits in the second-level cache is used for all of
 * them before the next one. */
INLINE void run(const lm_matmul_args *a, const traits t)
{
    uint64_t strip_bytes = a->cols / 32 * t.unit + a->cols / 256 * t.head, group = R * (1 + (256u << 10) / (strip_bytes + 1));
    uint64_t tiles = (a->n + TOKENS - 1) / TOKENS;

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < tiles; i++) {
            uint64_t r = a->n * i / tiles, tokens = a->n * (i + 1) / tiles - r;
            lm_q15_row x[TOKENS];
            for (uint64_t j = 0; j < tokens; j++)
                x[j] = lm_q15_row_at((const uint8_t *)a->x + (r + j) * a->x_stride, a->cols);
            for (uint64_t o = from; o < to; o += R) {
                const uint8_t *strip = (const uint8_t *)a->w + o / R * strip_bytes;
                __m512 y[TOKENS];
                switch (tokens) {
                case 6: tile(t, strip, x, a->cols, 6, y); break;
                case 5: tile(t, strip, x, a->cols, 5, y); break;
                case 4: tile(t, strip, x, a->cols, 4, y); break;
                case 3: tile(t, strip, x, a->cols, 3, y); break;
                case 2: tile(t, strip, x, a->cols, 2, y); break;
                default: tile(t, strip, x, a->cols, 1, y);
                }
                for (uint64_t j = 0; j < tokens; j++)
                    put(a, r + j, o, y[j]);
            }
        }
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* id, word, scales for each 16, bytes of a unit and of the numbers ahead of eight, of one row */
#define STRIPS(X)                 \
    X(LM_Q4_0, q4_0, 0, 18, 0)    \
    X(LM_Q4_1, q4_1, 0, 20, 0)    \
    X(LM_Q5_0, q5_0, 0, 22, 0)    \
    X(LM_Q5_1, q5_1, 0, 24, 0)    \
    X(LM_Q8_0, q8_0, 0, 34, 0)    \
    X(LM_IQ4_NL, iq4_nl, 0, 18, 0) \
    X(LM_MXFP4, mxfp4, 0, 17, 0)  \
    X(LM_Q2_K, q2_k, 1, 10, 4)    \
    X(LM_Q3_K, q3_k, 1, 14, 2)    \
    X(LM_Q4_K, q4_k, 0, 18, 4)    \
    X(LM_Q5_K, q5_k, 0, 22, 4)    \
    X(LM_Q6_K, q6_k, 1, 26, 2)    \
    X(LM_IQ4_XS, iq4_xs, 0, 17, 2)

#define X(id, word, halves, unit, head)                                                                      \
    static void run_##word(const lm_matmul_args *a)                                                          \
    {                                                                                                        \
        run(a, (traits){ load_##word, halves, (unit)*R, (head)*R });                                         \
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
        .name = #word " strips avx512vnni",                                                                  \
        .x = &lm_activation_q15_avx2,                                                                         \
        .arithmetic = LM_ARITHMETIC_INT8,                                                                    \
        .row_group = R,                                                                                      \
        .packed_bytes = bytes_##word,                                                                        \
        .pack = pack_##word,                                                                                 \
        .run = run_##word,                                                                                   \
        .row = row_##word,                                                                                   \
    };
STRIPS(X)
#undef X

void lm_strips_init_avx512vnni(lm_kernels *k)
{
#define X(id, word, halves, unit, head) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
