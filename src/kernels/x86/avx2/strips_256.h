/* strips_256.h - integer arithmetic on strips of sixteen rows with vectors of 256 bits: quantised weights times the rows of
 * q8_rows.h. One text for every instruction that multiplies bytes; a file that includes it defines
 *
 *   LEVEL      how its kernels are called, "avx2"
 *   TOGETHER   rows of x that share a loaded weight
 *   PLANES     true when codes above 127 have to be multiplied as two planes of four bits
 *   dots()     the product itself
 *
 * One output is one lane; a strip's vectors are two, rows 0-7 and 8-15. For each unit of 32 columns, in rising order:
 * y += w's d * (integer sum * x's d) + w's m * (sum of x). No order depends on how many rows of x there are; integer sums are
 * exact in any order. Codes with a sign are read with an offset that the start of the integer sum takes back.
 *
 * Sixteen registers do not hold sums and weights of a tile. Up to TOGETHER rows of x take their weights from the strip itself;
 * for more a unit is unpacked once, and it and the float sums of up to TOKENS rows live in the first-level cache, where they
 * cost a load that runs beside the products. */
#ifndef LM_KERNELS_STRIPS_256_H
#define LM_KERNELS_STRIPS_256_H

#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "kernels/x86/avx2/codes_256.h"
#include "kernels/x86/avx2/levels_avx2.h"

enum { FEW = 3, TOKENS = 24, GROUP_BYTES = 128 << 10, AHEAD = 2048 };     /* bytes that a few rows prefetch ahead */

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef __m256i code_fn(const uint8_t *p, const int v, const int part);
typedef __m256  number_fn(const uint8_t *p, const uint8_t *head, int half, int part);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;

/* A type, as constants that every inlined loop sees. */
typedef struct traits {
    code_fn   *codes;
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        offset;               /* of the codes */
    int        top;                  /* no code is larger */
    int        halves;               /* 2: a scale for each 16 columns */
    uint32_t   numbers, unit, head;  /* bytes of the numbers ahead of the codes, of a unit, ahead of eight */
} traits;

/* A unit unpacked: codes, or their low and high four bits where PLANES asks for it. */
typedef struct unpacked {
    __m256i w[2][16];
    __m256  d[2][2], m[2][2];        /* [half][part] */
} unpacked;

/* Where a unit's numbers and codes are: unpacked, or in the strip. */
typedef struct source {
    const uint8_t  *p, *head;
    const unpacked *u;
} source;

/* Rows of x from their first block on, and which of their blocks have low parts. */
typedef struct operands {
    const uint8_t  *x[TOKENS];
    const uint64_t *wide[TOKENS];
    const uint64_t *any;             /* blocks of which some row has low parts */
    uint64_t low;                    /* bytes from a high part to its low part */
    uint64_t cols;
    uint64_t ahead;                  /* prefetch what lies so many bytes further; 0: nothing */
} operands;

INLINE bool in_planes(const traits t)
{
    return PLANES && t.top > 127;
}

/* The codes of vector v, plane by plane. */
INLINE __m256i weights(const traits t, const source *s, const int which, const int v, const int part)
{
    if (s->u)
        return s->u->w[which][2 * v + part];
    __m256i w = t.codes(s->p + t.numbers, v, part);
    return !in_planes(t) ? w : which ? high4(w) : low4(w);
}

INLINE __m256 numbers(number_fn *f, const __m256 (*from)[2], const source *s, const int half, const int part)
{
    return s->u ? from[half][part] : f(s->p, s->head, half, part);
}

/* Where an integer sum starts: minus the offset times the sum of the activations' codes. */
INLINE __m256i start_of(const traits t, const uint8_t *block, const int half)
{
    const lm_q8_block *x = (const void *)block;

    if (!t.offset)
        return _mm256_setzero_si256();
    if (t.halves == 2)
        return _mm256_slli_epi32(_mm256_set1_epi32(x->half_start[half]), t.offset == 4 ? 0 : t.offset == 32 ? 3 : 4);
    if (t.offset == 12)
        return _mm256_set1_epi32(x->start + x->start / 2);
    return _mm256_slli_epi32(_mm256_set1_epi32(x->start), t.offset == 8 ? 0 : t.offset == 16 ? 1 : t.offset == 64 ? 3 : 4);
}

INLINE __m256i four(const uint8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm256_set1_epi32(v);
}

/* The integer sums, starts included, of a unit or of a half of one with the blocks at x. */
INLINE void dots(const traits t, const source *s, const uint8_t *const *x, const int half, const int tokens, __m256i sum[2][TOGETHER]);

/* acc += w's d * x's d * (high + low / 128) + m * (sum of x). */
INLINE void finish(const traits t, const source *s, const uint8_t *const *x, const int half, const int tokens,
                   __m256i sum[2][TOGETHER], const __m256 (*low)[TOGETHER], __m256 (*acc)[2])
{
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        __m256 d = numbers(t.d, s->u ? s->u->d : NULL, s, half, part);
        __m256 m = numbers(t.m, s->u ? s->u->m : NULL, s, half, part);
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++) {
            const lm_q8_block *block = (const void *)x[j];
            __m256 total = _mm256_broadcast_ss(t.halves == 2 ? &block->half_sum[half] : &block->sum);
            __m256 v = _mm256_cvtepi32_ps(sum[part][j]);
            if (low)                                 /* the same bits where low is zero */
                v = _mm256_fmadd_ps(low[part][j], _mm256_set1_ps(0.0078125f), v);
            acc[j][part] = _mm256_fmadd_ps(_mm256_mul_ps(v, _mm256_broadcast_ss(&block->d)), d, acc[j][part]);
            if (t.sign == PLUS)
                acc[j][part] = _mm256_fmadd_ps(m, total, acc[j][part]);
            if (t.sign == MINUS)
                acc[j][part] = _mm256_fnmadd_ps(m, total, acc[j][part]);
        }
    }
}

/* Blocks of `tokens` rows, in variables of our own: a store of sums could be to anything else. */
INLINE void blocks_at(const uint8_t *const *x, uint64_t at, const int tokens, const uint8_t **out)
{
#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        out[j] = x[j] + at;
}

/* Up to TOGETHER rows of x against a unit. */
INLINE void step(const traits t, const source *s, const uint8_t *const *rows, uint64_t at, const int tokens, __m256 (*acc)[2])
{
    const uint8_t *x[TOGETHER];

    blocks_at(rows, at, tokens, x);
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        __m256i sum[2][TOGETHER];
        dots(t, s, x, half, tokens, sum);
        finish(t, s, x, half, tokens, sum, NULL, acc);
    }
}

/* The same where some row has low parts. */
INLINE void wide_step(const traits t, const source *s, const uint8_t *const *rows, uint64_t at, uint64_t low_at, const int tokens,
                      __m256 (*acc)[2])
{
    const uint8_t *x[TOGETHER], *y[TOGETHER];

    blocks_at(rows, at, tokens, x);
    blocks_at(rows, at + low_at, tokens, y);
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        __m256i sum[2][TOGETHER];
        __m256 low[2][TOGETHER];
        dots(t, s, y, half, tokens, sum);
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++)
#pragma GCC unroll 6
            for (int j = 0; j < tokens; j++)
                low[part][j] = _mm256_cvtepi32_ps(sum[part][j]);
        dots(t, s, x, half, tokens, sum);
        finish(t, s, x, half, tokens, sum, low, acc);
    }
}

INLINE void unpack_unit(const traits t, const uint8_t *p, const uint8_t *head, unpacked *u)
{
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++) {
            u->d[half][part] = t.d(p, head, half, part);
            if (t.sign != NO_MINIMUM)
                u->m[half][part] = t.m(p, head, half, part);
        }
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++) {
            __m256i w = t.codes(p + t.numbers, v, part);
            u->w[0][2 * v + part] = in_planes(t) ? low4(w) : w;
            if (in_planes(t))
                u->w[1][2 * v + part] = high4(w);
        }
}

INLINE bool is_wide(const operands *o, uint64_t b, int from, int tokens)
{
    bool wide = false;

    for (int j = from; j < from + tokens; j++)
        wide = wide || (o->wide[j][b / 64] >> b % 64 & 1);
    return wide;
}

/* One strip's tile: a few rows, or up to TOKENS of them. `wide` is whatever a unit with low parts needs, kept out of the loop. */
typedef void wide_fn(const source *s, const uint8_t *const *x, uint64_t at, uint64_t low_at, int tokens, __m256 (*acc)[2]);

INLINE void few_unit(const traits t, wide_fn *wide, const operands *o, const source *s, uint64_t b, const int tokens, __m256 (*acc)[2])
{
    if (__builtin_expect(o->any[b / 64] >> b % 64 & 1, 0)) {
        __m256 seen[TOGETHER][2];                    /* what others may see is not what the loop keeps in registers */
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            seen[j][0] = acc[j][0], seen[j][1] = acc[j][1];
        wide(s, o->x, 64 * b, o->low, tokens, seen);
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            acc[j][0] = seen[j][0], acc[j][1] = seen[j][1];
        return;
    }
    step(t, s, o->x, 64 * b, tokens, acc);
}

/* Into the first level when a row of x is all that reads the unit, else into the second. */
INLINE void prefetch_unit(const traits t, const uint8_t *p, uint64_t ahead, const bool near)
{
    for (uint32_t i = 0; i < t.unit; i += 64) {
        if (near)
            _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T0);
        else
            _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T1);
    }
}

/* One or two strips against up to TOGETHER rows of x. */
INLINE void few_tile(const traits t, wide_fn *wide, const operands *given, const uint8_t *w, uint64_t other, const int strips,
                     const int tokens, __m256 (*out)[TOKENS][2])
{
    const operands copy = *given, *o = &copy;
    const uint8_t *p[2] = { w, w + other }, *head[2] = { p[0], p[1] };
    __m256 acc[2][TOGETHER][2];

    for (int i = 0; i < strips; i++)
        for (int j = 0; j < tokens; j++)
            acc[i][j][0] = acc[i][j][1] = _mm256_setzero_ps();
    for (uint64_t b = 0; b < o->cols / 32; b++) {
#pragma GCC unroll 2
        for (int i = 0; i < strips; i++) {
            if (t.head && b % 8 == 0) {
                head[i] = p[i];
                p[i] += t.head;
            }
            if (o->ahead)
                prefetch_unit(t, p[i], o->ahead, tokens == 1);
            source s = { p[i], head[i], NULL };
            few_unit(t, wide, o, &s, b, tokens, acc[i]);
            p[i] += t.unit;
        }
    }
    for (int i = 0; i < strips; i++)
        for (int j = 0; j < tokens; j++)
            out[i][j][0] = acc[i][j][0], out[i][j][1] = acc[i][j][1];
}

/* The rows that are left when TOGETHER have been taken as often as they can. */
INLINE void last_steps(const traits t, const source *s, const uint8_t *const *x, uint64_t at, int left, __m256 (*acc)[2])
{
    switch (left) {
    case 5: step(t, s, x, at, TOGETHER > 5 ? 5 : 1, acc); break;
    case 4: step(t, s, x, at, TOGETHER > 4 ? 4 : 1, acc); break;
    case 3: step(t, s, x, at, TOGETHER > 3 ? 3 : 1, acc); break;
    case 2: step(t, s, x, at, 2, acc); break;
    case 1: step(t, s, x, at, 1, acc); break;
    default: break;
    }
}

/* One strip against up to TOKENS rows. */
INLINE void many_tile(const traits t, wide_fn *wide, const operands *o, const uint8_t *p, const int tokens, __m256 (*acc)[2])
{
    const uint8_t *head = p;

    for (int j = 0; j < tokens; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    for (uint64_t b = 0; b < o->cols / 32; b++) {
        if (t.head && b % 8 == 0) {
            head = p;
            p += t.head;
        }
        if (o->ahead)
            prefetch_unit(t, p, o->ahead, false);
        unpacked u;
        source s = { p, head, &u };
        unpack_unit(t, p, head, &u);
        bool any = o->any[b / 64] >> b % 64 & 1;
        int j = 0;
        for (; j + TOGETHER <= tokens; j += TOGETHER) {
            if (__builtin_expect(any && is_wide(o, b, j, TOGETHER), 0))
                wide(&s, o->x + j, 64 * b, o->low, TOGETHER, acc + j);
            else
                step(t, &s, o->x + j, 64 * b, TOGETHER, acc + j);
        }
        if (__builtin_expect(j < tokens && any && is_wide(o, b, j, tokens - j), 0))
            wide(&s, o->x + j, 64 * b, o->low, tokens - j, acc + j);
        else
            last_steps(t, &s, o->x + j, 64 * b, tokens - j, acc + j);
        p += t.unit;
    }
}

/* ---- the loops around tiles -------------------------------------------------------------------------------------- */

typedef void few_fn(const operands *o, const uint8_t *w, uint64_t other, __m256 (*acc)[TOKENS][2]);
typedef void many_fn(const operands *o, const uint8_t *w, int tokens, __m256 (*acc)[2]);

typedef struct tiles {
    few_fn  *few[2][FEW];            /* [strips - 1][rows - 1] */
    many_fn *many;
} tiles;

/* Outputs o.. of row t; the last strip may have fewer than sixteen. */
static void put(const lm_matmul_args *a, uint64_t t, uint64_t o, const __m256 v[2])
{
    for (int part = 0; part < 2; part++, o += 8) {
        if (o + 8 <= a->last) {
            __m256 y = v[part];
            if (a->bias)
                y = _mm256_add_ps(y, _mm256_loadu_ps(a->bias + o));
            y = _mm256_mul_ps(y, _mm256_set1_ps(a->scale));
            if (a->add)
                y = _mm256_add_ps(y, _mm256_loadu_ps(a->add + t * a->add_stride + o));
            _mm256_storeu_ps(a->y + t * a->y_stride + o, y);
            continue;
        }
        float lanes[8];
        _mm256_storeu_ps(lanes, v[part]);
        for (uint64_t i = 0; o + i < a->last; i++)
            lm_matmul_store(a, t, o + i, lanes[i]);
    }
}

/* Rows [r, r + tokens) of x as a tile reads them; `any` has a bit for each block. */
static void take_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t *any, operands *o)
{
    uint64_t words = (a->cols / 32 + 63) / 64;

    for (uint64_t i = 0; i < words; i++)
        any[i] = 0;
    for (uint64_t j = 0; j < tokens; j++) {
        lm_q8_row x = lm_q8_row_at((const uint8_t *)a->x + (r + j) * a->x_stride, a->cols);
        o->x[j] = (const uint8_t *)x.high;
        o->wide[j] = x.wide;
        for (uint64_t i = 0; i < words && x.head->wide; i++)
            any[i] |= x.wide[i];
    }
    o->any = any;
}

/* A few rows: every strip is read once, from memory as a rule. Strips of the first half go with those of the second, so that
 * there are two streams without a jump in them. */
static void run_few(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    operands o = { .low = 2 * a->cols, .cols = a->cols, .ahead = AHEAD };
    __m256 y[2][TOKENS][2];

    take_rows(a, 0, a->n, a->scratch, &o);
    for (uint64_t i = 0; i < half; i++) {
        int strips = half + i < n ? 2 : 1;
        t->few[strips - 1][a->n - 1](&o, (const uint8_t *)a->w + (a->first / R + i) * strip, half * strip, y);
        for (int s = 0; s < strips; s++)
            for (uint64_t j = 0; j < a->n; j++)
                put(a, j, a->first + (i + (s ? half : 0)) * R, y[s][j]);
    }
}

/* Many: they are cut into tiles of whole steps and nearly equal size, and a group of strips that fits in the second-level cache is used for
 * all of them before the next one, which the first tile prefetches. */
static void run_many(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t group = R * (1 + GROUP_BYTES / (strip + 1)), cuts = (a->n + TOKENS - 1) / TOKENS, steps = (a->n + TOGETHER - 1) / TOGETHER;
    operands o = { .low = 2 * a->cols, .cols = a->cols };
    __m256 y[TOKENS][2];

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < cuts; i++) {
            uint64_t r = steps * i / cuts * TOGETHER, end = steps * (i + 1) / cuts * TOGETHER, tokens = (end < a->n ? end : a->n) - r;
            take_rows(a, r, tokens, a->scratch, &o);
            for (uint64_t at = from; at < to; at += R) {
                o.ahead = i == 0 && at + group + R <= a->last ? group / R * strip : 0;
                t->many(&o, (const uint8_t *)a->w + at / R * strip, (int)tokens, y);
                for (uint64_t j = 0; j < tokens; j++)
                    put(a, r + j, at, y[j]);
            }
        }
    }
}

static void run(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    if (a->n <= FEW)
        run_few(a, t, strip);
    else
        run_many(a, t, strip);
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return lm_q8_mask_bytes(cols);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* id, word, codes, d, m, its sign, offset, top, halves, bytes of the numbers, of a unit, of the numbers ahead of eight, of a
 * row */
#define STRIPS(X)                                                                         \
    X(LM_Q4_0, q4_0, c_nibbles, d_f16, m_none, NO_MINIMUM, 8, 15, 1, 2, 18, 0)            \
    X(LM_Q4_1, q4_1, c_nibbles, d_f16, m_f16, PLUS, 0, 15, 1, 4, 20, 0)                   \
    X(LM_Q5_0, q5_0, c_nibbles_bit, d_f16, m_none, NO_MINIMUM, 16, 31, 1, 2, 22, 0)       \
    X(LM_Q5_1, q5_1, c_nibbles_bit, d_f16, m_f16, PLUS, 0, 31, 1, 4, 24, 0)               \
    X(LM_Q8_0, q8_0, c_bytes, d_f16, m_none, NO_MINIMUM, 128, 255, 1, 2, 34, 0)           \
    X(LM_IQ4_NL, iq4_nl, c_iq4, d_f16, m_none, NO_MINIMUM, 128, 241, 1, 2, 18, 0)         \
    X(LM_MXFP4, mxfp4, c_fp4, d_exponent, m_none, NO_MINIMUM, 12, 24, 1, 1, 17, 0)        \
    X(LM_Q2_K, q2_k, c_pairs, d_low, m_high, MINUS, 0, 3, 2, 2, 10, 4)                    \
    X(LM_Q3_K, q3_k, c_pairs_bit, d_signed, m_none, NO_MINIMUM, 4, 7, 2, 2, 14, 2)        \
    X(LM_Q4_K, q4_k, c_nibbles, d_unsigned, m_byte, MINUS, 0, 15, 1, 2, 18, 4)            \
    X(LM_Q5_K, q5_k, c_nibbles_bit, d_unsigned, m_byte, MINUS, 0, 31, 1, 2, 22, 4)        \
    X(LM_Q6_K, q6_k, c_nibbles_pair, d_signed, m_none, NO_MINIMUM, 32, 63, 2, 2, 26, 2)   \
    X(LM_IQ4_XS, iq4_xs, c_iq4, d_signed, m_none, NO_MINIMUM, 128, 241, 1, 1, 17, 2)

#define TRAITS(codes, d, m, sign, offset, top, halves, numbers, unit, head) \
    ((traits){ codes, d, m, sign, offset, top, halves, (numbers)*R, (unit)*R, (head)*R })

#define FEW_TILE(word, strips, tokens, ...)                                                                                      \
    static void few_##word##_##strips##_##tokens(const operands *o, const uint8_t *w, uint64_t other, __m256 (*acc)[TOKENS][2]) \
    {                                                                                                                       \
        few_tile(TRAITS(__VA_ARGS__), wide_few_##word, o, w, other, strips, tokens, acc);      \
    }

/* What runs a type of these traits. A unit with low parts is rare: one row at a time. */
#define RUN(word, ...)                                                                                                    \
    static __attribute__((noinline)) void wide_few_##word(const source *s, const uint8_t *const *x, uint64_t at, uint64_t low_at, \
                                                          int tokens, __m256 (*acc)[2])                                     \
    {                                                                                                                       \
        source copy = { s->p, s->head, NULL };                                                                              \
        for (int j = 0; j < tokens; j++)                                                                                    \
            wide_step(TRAITS(__VA_ARGS__), &copy, x + j, at, low_at, 1, acc + j);                                           \
    }                                                                                                                       \
    static __attribute__((noinline)) void wide_many_##word(const source *s, const uint8_t *const *x, uint64_t at, uint64_t low_at, \
                                                           int tokens, __m256 (*acc)[2])                                    \
    {                                                                                                                       \
        if (tokens == TOGETHER)                                                                                             \
            wide_step(TRAITS(__VA_ARGS__), s, x, at, low_at, TOGETHER, acc);                                                \
        else                                                                                                                \
            for (int j = 0; j < tokens; j++)                                                                                \
                wide_step(TRAITS(__VA_ARGS__), s, x + j, at, low_at, 1, acc + j);                                           \
    }                                                                                                                       \
    FEW_TILE(word, 1, 1, __VA_ARGS__) FEW_TILE(word, 1, 2, __VA_ARGS__) FEW_TILE(word, 1, 3, __VA_ARGS__)                                  \
    FEW_TILE(word, 2, 1, __VA_ARGS__) FEW_TILE(word, 2, 2, __VA_ARGS__) FEW_TILE(word, 2, 3, __VA_ARGS__)                                  \
    static void many_##word(const operands *o, const uint8_t *w, int tokens, __m256 (*acc)[2])                              \
    {                                                                                                                       \
        many_tile(TRAITS(__VA_ARGS__), wide_many_##word, o, w, tokens, acc);                                                \
    }                                                                                                                       \
    static const tiles tiles_##word = {                                                                                     \
        { { few_##word##_1_1, few_##word##_1_2, few_##word##_1_3 }, { few_##word##_2_1, few_##word##_2_2, few_##word##_2_3 } }, \
        many_##word,                                                                                                        \
    };

#define X(id, word, ...)                                                                                                    \
    RUN(word, __VA_ARGS__)                                                                                          \
    static void run_##word(const lm_matmul_args *a)                                                                         \
    {                                                                                                                       \
        run(a, &tiles_##word, lm_strip_bytes(lm_strip_of(id), a->cols));                                                 \
    }                                                                                                                       \
    LM_STRIP_KERNEL(id, word, LEVEL, &lm_activation_q8_avx2, 2 * R, scratch_bytes)
STRIPS(X)
#undef X

/* The strips of byte_strips.h. */
RUN(bytes, c_plain, d_f32, m_none, NO_MINIMUM, LM_BYTE_OFFSET, 127, 2, 8, 40, 0)

static void run_bytes(const lm_matmul_args *a)
{
    run(a, &tiles_bytes, a->cols / 32 * LM_BYTE_UNIT);
}

static uint64_t scratch_of_bytes(uint64_t cols)
{
    return lm_byte_strips_scratch(cols, scratch_bytes(cols));
}

#define X(id, word) LM_BYTE_KERNEL(id, word, LEVEL, &lm_activation_q8_avx2, run_bytes, scratch_bytes, scratch_of_bytes)
LM_BYTE_TYPES(X)
#undef X

INLINE void init_strips(lm_kernels *k)
{
#define X(id, word, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
    LM_BYTE_TYPES(X)
#undef X
}

#endif
