/* strips_avx512.c - integer arithmetic on strips of sixteen rows: quantised weights times the rows of q8_rows.h, by vpdpbusd.
 *
 * One output is one lane. For each unit of 32 columns, in rising order: y += w's d * (integer sum * x's d) + w's m * (sum of
 * x). No order depends on how many rows of x there are; integer sums are exact in any order. Codes with a
 * sign are read with an offset that the start of the integer sum takes back.
 *
 * Two strips at a time: a broadcast of four activations serves two dot products, which keeps loads from being the limit; up to
 * six rows of x, as many as there are registers for. Conversions, shifts and masks run beside dot products, multiplications do
 * not: eight dot products, one multiplication and one multiply-add a unit (one more where there is a minimum, twice as many
 * where there is a scale for each 16 columns) make four fifths of the peak the most that can be had. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "tensor/blocks.h"

enum { R = 16, TOKENS = 6, GROUP_BYTES = 256 << 10, AHEAD = 8192 };     /* bytes that a few rows prefetch ahead */


#define INLINE static inline __attribute__((always_inline))

/* ---- numbers of a unit ------------------------------------------------------------------------------------------- */

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

INLINE __m512 d_f16(const uint8_t *p, const uint8_t *head, int half)
{
    (void)head, (void)half;
    return f16(p);
}

/* A scale for each 16 or 32 columns, with a sign. */
INLINE __m512 d_signed(const uint8_t *p, const uint8_t *head, int half)
{
    return _mm512_mul_ps(f16(head), i8(p + half * R));
}

INLINE __m512 d_unsigned(const uint8_t *p, const uint8_t *head, int half)
{
    (void)half;
    return _mm512_mul_ps(f16(head), u8(p));
}

INLINE __m512 d_low(const uint8_t *p, const uint8_t *head, int half)
{
    __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p + half * R)));
    return _mm512_mul_ps(f16(head), _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15))));
}

/* The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE __m512 d_exponent(const uint8_t *p, const uint8_t *head, int half)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    (void)head, (void)half;
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
}

INLINE __m512 m_none(const uint8_t *p, const uint8_t *head, int half)
{
    (void)p, (void)head, (void)half;
    return _mm512_setzero_ps();
}

INLINE __m512 m_f16(const uint8_t *p, const uint8_t *head, int half)
{
    (void)head, (void)half;
    return f16(p + 2 * R);
}

INLINE __m512 m_byte(const uint8_t *p, const uint8_t *head, int half)
{
    (void)half;
    return _mm512_mul_ps(f16(head + 2 * R), u8(p + R));
}

INLINE __m512 m_high(const uint8_t *p, const uint8_t *head, int half)
{
    __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p + half * R)));
    return _mm512_mul_ps(f16(head + 2 * R), _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)));
}

/* ---- codes of a unit: four columns of sixteen rows --------------------------------------------------------------- */

INLINE __m512i plane(const uint8_t *p, int v)
{
    return _mm512_loadu_si512(p + 64 * v);
}

INLINE __m512i nibbles(const uint8_t *p, const int v)
{
    __m512i b = plane(p, v % 4);
    return _mm512_and_si512(v < 4 ? b : _mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}

/* The two-bit field moved to bits `to` and `to + 1`. */
INLINE __m512i pairs(const uint8_t *p, const int v, const int to)
{
    __m512i b = plane(p, v / 4);
    const int shift = 2 * (v % 4) - to;
    b = shift > 0 ? _mm512_srli_epi16(b, shift) : shift < 0 ? _mm512_slli_epi16(b, -shift) : b;
    return _mm512_and_si512(b, _mm512_set1_epi8((char)(3 << to)));
}

/* The bit moved to bit `to`. */
INLINE __m512i bits(const uint8_t *p, const int v, const int to)
{
    __m512i b = plane(p, 0);
    b = v > to ? _mm512_srli_epi16(b, v - to) : v < to ? _mm512_slli_epi16(b, to - v) : b;
    return _mm512_and_si512(b, _mm512_set1_epi8((char)(1 << to)));
}

INLINE __m512i c_nibbles(const uint8_t *p, const int v)
{
    return nibbles(p, v);
}

INLINE __m512i c_nibbles_bit(const uint8_t *p, const int v)
{
    return _mm512_or_si512(nibbles(p, v), bits(p + 16 * R, v, 4));
}

INLINE __m512i c_nibbles_pair(const uint8_t *p, const int v)
{
    return _mm512_or_si512(nibbles(p, v), pairs(p + 16 * R, v, 4));
}

INLINE __m512i c_pairs(const uint8_t *p, const int v)
{
    return pairs(p, v, 0);
}

INLINE __m512i c_pairs_bit(const uint8_t *p, const int v)
{
    return _mm512_or_si512(pairs(p, v, 0), bits(p + 8 * R, v, 2));
}

INLINE __m512i c_bytes(const uint8_t *p, const int v)
{
    return _mm512_xor_si512(plane(p, v), _mm512_set1_epi8((char)0x80));
}

/* IQ4 values + 128; FP4 values + 12. */
INLINE __m512i c_iq4(const uint8_t *p, const int v)
{
    __m128i values = _mm_xor_si128(_mm_loadu_si128((const void *)lm_iq4_values), _mm_set1_epi8((char)0x80));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles(p, v));
}

INLINE __m512i c_fp4(const uint8_t *p, const int v)
{
    __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), nibbles(p, v));
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef __m512i code_fn(const uint8_t *p, const int v);
typedef __m512  number_fn(const uint8_t *p, const uint8_t *head, int half);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;

/* A type, as constants that every inlined loop sees. */
typedef struct traits {
    code_fn   *codes;
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        offset;               /* of the codes */
    int        halves;               /* 2: a scale for each 16 columns */
    uint32_t   numbers, unit, head;  /* bytes of the numbers ahead of the codes, of a unit, ahead of eight */
} traits;

/* What a tile multiplies: strips at w and w + strip, rows of x from their first block on. */
typedef struct operands {
    const uint8_t *w;
    uint64_t strip;                  /* bytes */
    const uint8_t *x[TOKENS];
    uint64_t low;                    /* bytes from a high part to its low part */
    const uint64_t *wide;            /* blocks of which some row has low parts */
    uint64_t cols;
    uint64_t ahead;                  /* prefetch what lies so many bytes further; 0: nothing */
} operands;

/* Where an integer sum starts: minus the offset times the sum of the activations' codes. */
INLINE __m512i start_of(const traits t, const uint8_t *block, const int half)
{
    const lm_q8_block *x = (const void *)block;

    if (!t.offset)
        return _mm512_setzero_si512();
    if (t.halves == 2)
        return _mm512_slli_epi32(_mm512_set1_epi32(x->half_start[half]), t.offset == 4 ? 0 : 3);
    if (t.offset == 12)
        return _mm512_add_epi32(_mm512_set1_epi32(x->start), _mm512_srai_epi32(_mm512_set1_epi32(x->start), 1));
    return _mm512_slli_epi32(_mm512_set1_epi32(x->start), t.offset == 8 ? 0 : t.offset == 16 ? 1 : 4);
}

INLINE __m512i four(const uint8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm512_set1_epi32(v);
}

/* Integer sums of a unit, or of half of one. Written out because the compiler would fold the broadcast into every product. */
INLINE void dots(const traits t, const operands *o, const uint8_t *const *p, uint64_t at, const int half, const int strips,
                 const int tokens, __m512i sum[2][TOKENS])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        sum[0][j] = sum[1][j] = start_of(t, o->x[j] + at, half);
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        __m512i w0 = t.codes(p[0] + t.numbers, v), w1 = strips == 2 ? t.codes(p[1] + t.numbers, v) : w0;
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++) {
            __m512i x = four(o->x[j] + at + 4 * v);
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[0][j]) : "v"(w0), "v"(x));
            if (strips == 2)
                __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[1][j]) : "v"(w1), "v"(x));
        }
    }
}

/* acc += w's d * x's d * (high + low / 128) + m * (sum of x). */
INLINE void finish(const traits t, const operands *o, const uint8_t *const *p, const uint8_t *const *head, uint64_t b,
                   const int half, const int strips, const int tokens, __m512i sum[2][TOKENS], const __m512 *low,
                   __m512 acc[2][TOKENS])
{
    __m512 d[2], m[2];

#pragma GCC unroll 2
    for (int s = 0; s < strips; s++) {
        d[s] = t.d(p[s], head[s], half);
        m[s] = t.m(p[s], head[s], half);
    }
#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++) {
        const lm_q8_block *x = (const void *)(o->x[j] + 64 * b);
        __m512 total = _mm512_set1_ps(t.halves == 2 ? x->half_sum[half] : x->sum);
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++) {
            __m512 v = _mm512_cvtepi32_ps(sum[s][j]);
            if (low)                                 /* the same bits where low is zero */
                v = _mm512_fmadd_ps(low[TOKENS * s + j], _mm512_set1_ps(0.0078125f), v);
            acc[s][j] = _mm512_fmadd_ps(_mm512_mul_ps(v, _mm512_set1_ps(x->d)), d[s], acc[s][j]);
            if (t.sign == PLUS)
                acc[s][j] = _mm512_fmadd_ps(m[s], total, acc[s][j]);
            if (t.sign == MINUS)
                acc[s][j] = _mm512_fnmadd_ps(m[s], total, acc[s][j]);
        }
    }
}

INLINE void prefetch_unit(const traits t, const uint8_t *p, uint64_t ahead)
{
    for (uint32_t i = 0; i < t.unit; i += 64)
        _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T1);
}

INLINE void copy_sums(__m512 to[2][TOKENS], __m512 from[2][TOKENS], const int strips, const int tokens)
{
#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            to[s][j] = from[s][j];
}

/* A unit whose block has low parts: rare, and kept out of the loop that has no register to spare. */
typedef void wide_fn(const operands *o, const uint8_t *const *p, const uint8_t *const *head, uint64_t b, __m512 acc[2][TOKENS]);

INLINE void wide_unit(const traits t, const operands *o, const uint8_t *const *p, const uint8_t *const *head, uint64_t b,
                      const int strips, const int tokens, __m512 acc[2][TOKENS])
{
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        __m512i sum[2][TOKENS];
        __m512 low[2 * TOKENS];
        dots(t, o, p, 64 * b + o->low, half, strips, tokens, sum);
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++)
#pragma GCC unroll 6
            for (int j = 0; j < tokens; j++)
                low[TOKENS * s + j] = _mm512_cvtepi32_ps(sum[s][j]);
        dots(t, o, p, 64 * b, half, strips, tokens, sum);
        finish(t, o, p, head, b, half, strips, tokens, sum, low, acc);
    }
}

/* One or two strips against `tokens` rows of x. */
INLINE void tile(const traits t, wide_fn *wide, const operands *given, const int strips, const int tokens, __m512 out[2][TOKENS])
{
    const operands copy = *given, *o = &copy;        /* what nobody else can see stays in registers */
    const uint8_t *p[2] = { o->w, o->w + o->strip }, *head[2] = { p[0], p[1] };
    __m512 acc[2][TOKENS];

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        acc[0][j] = acc[1][j] = _mm512_setzero_ps();
    for (uint64_t b = 0; b < o->cols / 32; b++) {
        if (t.head && b % 8 == 0) {
            head[0] = p[0];
            head[1] = p[1];
            p[0] += t.head;
            p[1] += t.head;
        }
        if (o->ahead) {
            prefetch_unit(t, p[0], o->ahead);
            if (strips == 2)
                prefetch_unit(t, p[1], o->ahead);
        }
        if (__builtin_expect(o->wide[b / 64] >> b % 64 & 1, 0)) {
            __m512 moved[2][TOKENS];
            copy_sums(moved, acc, strips, tokens);
            wide(o, p, head, b, moved);
            copy_sums(acc, moved, strips, tokens);
        } else {
#pragma GCC unroll 2
            for (int half = 0; half < t.halves; half++) {
                __m512i sum[2][TOKENS];
                dots(t, o, p, 64 * b, half, strips, tokens, sum);
                finish(t, o, p, head, b, half, strips, tokens, sum, NULL, acc);
            }
        }
        p[0] += t.unit;
        p[1] += t.unit;
    }
    copy_sums(out, acc, strips, tokens);
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

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);

/* A tile for each number of strips and rows. */
typedef struct tiles { tile_fn *of[2][TOKENS]; } tiles;

/* Which blocks any of `tokens` rows has low parts of; NULL when none has any. */
static void find_wide(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t *wide)
{
    uint64_t words = (a->cols / 32 + 63) / 64;

    for (uint64_t i = 0; i < words; i++)
        wide[i] = 0;
    for (uint64_t j = 0; j < tokens; j++) {
        lm_q8_row x = lm_q8_row_at((const uint8_t *)a->x + (r + j) * a->x_stride, a->cols);
        for (uint64_t i = 0; i < words && x.head->wide; i++)
            wide[i] |= x.wide[i];
    }
}

/* Rows [r, r + tokens) of x as a tile reads them. */
static void take_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, operands *o)
{
    find_wide(a, r, tokens, a->scratch);
    for (uint64_t j = 0; j < tokens; j++)
        o->x[j] = (const uint8_t *)lm_q8_row_at((const uint8_t *)a->x + (r + j) * a->x_stride, a->cols).high;
}

/* One tile: outputs at.. and, where there are two strips, other... */
static void one_tile(const lm_matmul_args *a, const tiles *t, const operands *o, uint64_t r, uint64_t tokens, int strips, uint64_t at,
                     uint64_t other)
{
    __m512 y[2][TOKENS];

    t->of[strips - 1][tokens - 1](o, y);
    for (int s = 0; s < strips; s++)
        for (uint64_t j = 0; j < tokens; j++)
            put(a, r + j, s ? other : at, y[s][j]);
}

/* A few rows: every strip is read once, from memory as a rule. Strips of the first half go with those of the second, so that
 * there are two streams without a jump in them. */
static void run_few(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    operands o = { .strip = half * strip, .low = 2 * a->cols, .cols = a->cols, .wide = a->scratch, .ahead = a->n > 1 ? AHEAD : 0 };

    take_rows(a, 0, a->n, &o);
    for (uint64_t i = 0; i < half; i++) {
        o.w = (const uint8_t *)a->w + (a->first / R + i) * strip;
        one_tile(a, t, &o, 0, a->n, half + i < n ? 2 : 1, a->first + i * R, a->first + (half + i) * R);
    }
}

/* Many: they are cut into tiles of nearly equal size, and a group of strips that fits in the second-level cache is used for
 * all of them before the next one, which the first tile prefetches. */
static void run_many(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t group = 2 * R * (1 + GROUP_BYTES / (2 * strip + 1)), cuts = (a->n + TOKENS - 1) / TOKENS;
    operands o = { .strip = strip, .low = 2 * a->cols, .cols = a->cols, .wide = a->scratch };

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < cuts; i++) {
            uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
            take_rows(a, r, tokens, &o);
            for (uint64_t at = from; at < to; at += 2 * R) {
                o.w = (const uint8_t *)a->w + at / R * strip;
                o.ahead = i == 0 && at + group + 2 * R <= a->last ? group / R * strip : 0;
                one_tile(a, t, &o, r, tokens, to - at > R ? 2 : 1, at, at + R);
            }
        }
    }
}

static void run(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    if (a->n <= TOKENS)
        run_few(a, t, strip);
    else
        run_many(a, t, strip);
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return lm_q8_mask_bytes(cols);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* id, word, codes, d, m, its sign, offset, halves, bytes of the numbers, of a unit, of the numbers ahead of eight, of a row */
#define STRIPS(X)                                                                      \
    X(LM_Q4_0, q4_0, c_nibbles, d_f16, m_none, NO_MINIMUM, 8, 1, 2, 18, 0)             \
    X(LM_Q4_1, q4_1, c_nibbles, d_f16, m_f16, PLUS, 0, 1, 4, 20, 0)                    \
    X(LM_Q5_0, q5_0, c_nibbles_bit, d_f16, m_none, NO_MINIMUM, 16, 1, 2, 22, 0)        \
    X(LM_Q5_1, q5_1, c_nibbles_bit, d_f16, m_f16, PLUS, 0, 1, 4, 24, 0)                \
    X(LM_Q8_0, q8_0, c_bytes, d_f16, m_none, NO_MINIMUM, 128, 1, 2, 34, 0)             \
    X(LM_IQ4_NL, iq4_nl, c_iq4, d_f16, m_none, NO_MINIMUM, 128, 1, 2, 18, 0)           \
    X(LM_MXFP4, mxfp4, c_fp4, d_exponent, m_none, NO_MINIMUM, 12, 1, 1, 17, 0)         \
    X(LM_Q2_K, q2_k, c_pairs, d_low, m_high, MINUS, 0, 2, 2, 10, 4)                    \
    X(LM_Q3_K, q3_k, c_pairs_bit, d_signed, m_none, NO_MINIMUM, 4, 2, 2, 14, 2)        \
    X(LM_Q4_K, q4_k, c_nibbles, d_unsigned, m_byte, MINUS, 0, 1, 2, 18, 4)             \
    X(LM_Q5_K, q5_k, c_nibbles_bit, d_unsigned, m_byte, MINUS, 0, 1, 2, 22, 4)         \
    X(LM_Q6_K, q6_k, c_nibbles_pair, d_signed, m_none, NO_MINIMUM, 32, 2, 2, 26, 2)    \
    X(LM_IQ4_XS, iq4_xs, c_iq4, d_signed, m_none, NO_MINIMUM, 128, 1, 1, 17, 2)

#define TRAITS(codes, d, m, sign, offset, halves, numbers, unit, head) \
    ((traits){ codes, d, m, sign, offset, halves, (numbers)*R, (unit)*R, (head)*R })

#define TILE(word, strips, tokens, ...)                                                                           \
    static __attribute__((noinline)) void wide_##word##_##strips##_##tokens(                                \
        const operands *o, const uint8_t *const *p, const uint8_t *const *head, uint64_t b, __m512 acc[2][TOKENS]) \
    {                                                                                                             \
        wide_unit(TRAITS(__VA_ARGS__), o, p, head, b, strips, tokens, acc);                                       \
    }                                                                                                             \
    static void tile_##word##_##strips##_##tokens(const operands *o, __m512 acc[2][TOKENS])                       \
    {                                                                                                             \
        tile(TRAITS(__VA_ARGS__), wide_##word##_##strips##_##tokens, o, strips, tokens, acc);                     \
    }

#define X(id, word, ...)                                                                                         \
    TILE(word, 1, 1, __VA_ARGS__) TILE(word, 1, 2, __VA_ARGS__) TILE(word, 1, 3, __VA_ARGS__)                    \
    TILE(word, 1, 4, __VA_ARGS__) TILE(word, 1, 5, __VA_ARGS__) TILE(word, 1, 6, __VA_ARGS__)                    \
    TILE(word, 2, 1, __VA_ARGS__) TILE(word, 2, 2, __VA_ARGS__) TILE(word, 2, 3, __VA_ARGS__)                    \
    TILE(word, 2, 4, __VA_ARGS__) TILE(word, 2, 5, __VA_ARGS__) TILE(word, 2, 6, __VA_ARGS__)                    \
    static const tiles tiles_##word = { {                                                                        \
        { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3, tile_##word##_1_4, tile_##word##_1_5, tile_##word##_1_6 }, \
        { tile_##word##_2_1, tile_##word##_2_2, tile_##word##_2_3, tile_##word##_2_4, tile_##word##_2_5, tile_##word##_2_6 }, \
    } };                                                                                                         \
    static void run_##word(const lm_matmul_args *a)                                                              \
    {                                                                                                            \
        run(a, &tiles_##word, lm_strip_bytes(lm_strip_of(id), R, a->cols));                                      \
    }                                                                                                            \
    static uint64_t bytes_##word(uint64_t rows, uint64_t cols)                                                   \
    {                                                                                                            \
        return lm_strip_packed_bytes(lm_strip_of(id), R, rows, cols);                                            \
    }                                                                                                            \
    static void pack_##word(void *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t from, uint64_t to)  \
    {                                                                                                            \
        lm_strip_pack(lm_strip_of(id), R, dst, w, rows, cols, from, to);                                         \
    }                                                                                                            \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)                \
    {                                                                                                            \
        (void)rows;                                                                                              \
        lm_strip_row(lm_strip_of(id), R, dst, w, cols, row);                                                     \
    }                                                                                                            \
    static const lm_matmul strips_##word = {                                                                     \
        .name = #word " strips avx512vnni",                                                                      \
        .x = &lm_activation_q8_avx2,                                                                             \
        .arithmetic = LM_ARITHMETIC_INT8,                                                                        \
        .row_group = 2 * R,                                                                                      \
        .scratch_bytes = scratch_bytes,                                                                          \
        .packed_bytes = bytes_##word,                                                                            \
        .pack = pack_##word,                                                                                     \
        .run = run_##word,                                                                                       \
        .row = row_##word,                                                                                       \
    };
STRIPS(X)
#undef X

void lm_strips_init_avx512vnni(lm_kernels *k)
{
#define X(id, word, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
