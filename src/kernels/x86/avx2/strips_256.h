/* strips_256.h - integer arithmetic on strips of sixteen rows with vectors of 256 bits: quantised weights
 * times the rows of q8_rows.h. The code is shared by all instructions that multiply bytes; a file that
 * includes it defines
 *
 *   LEVEL      the name of its kernels, "avx2"
 *   TOGETHER   rows of x that share a loaded weight
 *   APART      true if a unit of one strip is finished before that of the other begins: a bit plane leaves no
 *              registers for both
 *   PANELS_FROM  the cost of unpacking from which panels pay off
 *   PLANES     true if codes above 127 must be multiplied as two planes of four bits
 *   dots()     the product itself
 *
 * One output is one lane; a strip has two vectors, rows 0-7 and 8-15. For each unit of 32 columns, in
 * ascending order: y += w's d * integer sum + w's m * (sum of x), in units of d of a group of x's blocks. The
 * sum is multiplied by `ratio` between groups and by d at the end; then the products of the high bytes are
 * added, row by row. No order depends on the number of rows of x; integer sums are exact in any order. Signed
 * codes are read with an offset, which the start of the integer sum compensates for.
 *
 * Sixteen registers hold the integer sums of a tile and the operands; the float sums stay in the first-level
 * cache, where they cost a load and a store that run in parallel with the products. With many rows, a group
 * of strips is unpacked once into a panel of bytes and float32, which all tiles then read. */
#ifndef LM_KERNELS_STRIPS_256_H
#define LM_KERNELS_STRIPS_256_H

#include "kernels/x86/avx2/codes_256.h"
#include "kernels/x86/avx2/strips_run_256.h"

enum { PLANE = 32 * R };             /* bytes of a unit's codes */

/* ---- products
 * ---------------------------------------------------------------------------------------------------- */

typedef __m256i code_fn(const uint8_t *p, const int v, const int part);
typedef __m256  number_fn(const lm_unit_at u, int half, int part);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;
typedef enum unpacking { NEVER, LITTLE, MUCH } unpacking;

/* A type, as compile-time constants for every inlined loop. */
typedef struct traits {
    code_fn   *codes;                /* NULL: a panel */
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        offset;               /* of the codes */
    int        top;                  /* no code is larger */
    int        halves;               /* 2: a scale per 16 columns */
    uint32_t   numbers, unit;        /* bytes of the numbers that precede the codes, of a unit */
    uint32_t   head, f16s, scales;   /* bytes of the head of eight units; of its f16 numbers; of its scales,
                                        per row */
} traits;

INLINE bool in_planes(const traits t)
{
    return PLANES && t.top > 127;
}

/* Return the codes of vector v. which: the plane, in panels with two planes. */
INLINE __m256i weights(const traits t, const uint8_t *p, const int which, const int v, const int part)
{
    if (!t.codes)
        return plane(p + t.numbers + which * PLANE, v, part);
    return t.codes(p + t.numbers, v, part);
}

/* Return the start of an integer sum: minus the offset times the sum of the activations' codes. */
INLINE __m256i start_of(const traits t, const uint8_t *block, const int half)
{
    const lm_q8_block *x = (const void *)block;

    if (!t.offset)
        return _mm256_setzero_si256();
    __m256i start = _mm256_set1_epi32(t.halves == 2 ? x->half_start[half] : x->start);
    if (t.halves == 2)
        return t.offset == 64   ? _mm256_slli_epi32(start, 1)
               : t.offset == 32 ? start
                                : _mm256_srai_epi32(start, t.offset == 16 ? 1 : 3);
    if (t.offset == 12)
        return _mm256_set1_epi32(x->start / 16 + x->start / 32);
    if (t.offset == 128)
        return start;
    return _mm256_srai_epi32(start, t.offset == 8 ? 4 : t.offset == 16 ? 3 : 1);
}

INLINE __m256i four(const uint8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm256_set1_epi32(v);
}

/* Compute the integer sums, including their starts, of a unit of one or two strips, or of half of one, with
 * the blocks at x. */
INLINE void dots(const traits t, const uint8_t *const *p, const uint8_t *const *x, const int half,
                 const int strips, const int tokens, __m256i sum[2][TOGETHER][2]);

/* Scales of types without a minimum are signed. */
INLINE const uint8_t *scales_of(const traits t, const uint8_t *head, uint8_t *bytes)
{
    return lm_strip_scales(head + t.f16s, t.scales, t.sign == NO_MINIMUM ? 32 : 0, bytes);
}

/* acc += w's d * integer sum + m * (sum of x), in units of x's d. */
INLINE void finish(const traits t, __m256i sum, const uint8_t *block, const int half, __m256 d, __m256 m,
                   __m256 *acc)
{
    const lm_q8_block *x = (const void *)block;
    __m256 total = _mm256_broadcast_ss(t.halves == 2 ? &x->half_sum[half] : &x->sum);

    *acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), d, *acc);
    if (t.sign == PLUS)
        *acc = _mm256_fmadd_ps(m, total, *acc);
    if (t.sign == MINUS)
        *acc = _mm256_fnmadd_ps(m, total, *acc);
}

/* Multiply all sums of a row by one number. */
INLINE void rescale(const float *by, const int strips, const int j, sums acc)
{
    const __m256 v = _mm256_broadcast_ss(by);

#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++)
            acc[s][j][part] = _mm256_mul_ps(acc[s][j][part], v);
}

/* Multiply one unit of one or two strips with `tokens` rows of x. */
INLINE void step(const traits t, const lm_unit_at *u, const uint8_t *const *rows, uint64_t b,
                 const int strips, const int tokens, sums acc)
{
    const uint8_t *x[TOGETHER], *p[2] = { u[0].unit, u[strips - 1].unit };

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++) {
        x[j] = rows[j] + 64 * b;
        if (b % LM_Q8_GROUP == 0)
            rescale(&((const lm_q8_block *)(const void *)x[j])->ratio, strips, j, acc);
    }
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        __m256i sum[2][TOGETHER][2];
        dots(t, p, x, half, strips, tokens, sum);
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++) {
            __m256 d[2] = { t.d(u[s], half, 0), t.d(u[s], half, 1) };
            __m256 m[2] = { t.m(u[s], half, 0), t.m(u[s], half, 1) };
#pragma GCC unroll 6
            for (int j = 0; j < tokens; j++)
#pragma GCC unroll 2
                for (int part = 0; part < 2; part++)
                    finish(t, sum[s][j][part], x[j], half, d[part], m[part], &acc[s][j][part]);
        }
    }
}

INLINE void prefetch_lines(const operands *o, const uint8_t *p, const uint32_t bytes)
{
    if (o->ahead)
#pragma GCC unroll 16
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)p + o->ahead + i, _MM_HINT_T1);
    if (o->near)
#pragma GCC unroll 16
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)p + o->near + i, _MM_HINT_T0);
}

/* Advance a tile to unit b of its strips; `bytes` is memory for scales. */
INLINE void next_unit(const traits t, const operands *o, uint64_t b, const int strips, lm_unit_at at[2],
                      uint8_t (*bytes)[16 * R])
{
#pragma GCC unroll 2
    for (int s = 0; s < strips; s++) {
        at[s].unit += b ? t.unit : 0;
        at[s].of8 = (uint32_t)(b % 8);
        if (t.head && b % 8 == 0) {
            at[s].head = at[s].unit;
            at[s].scales = scales_of(t, at[s].head, bytes[s]);
            at[s].unit += t.head;
            prefetch_lines(o, at[s].head, t.head);
        }
        prefetch_lines(o, at[s].unit, t.unit);
    }
}

/* Multiply one or two strips with `tokens` rows of x. Sums that do not fit in registers are in a local array
 * that nothing aliases, so the compiler stores them only if it must. If each half has its own d, it would
 * keep the wrong ones in registers, so `out` is used instead. */
INLINE void tile(const traits t, const operands *given, const int strips, const int tokens, sums out)
{
    const operands o = *given;
    lm_unit_at at[2] = { { .unit = o.w }, { .unit = o.w + o.other } };
    _Alignas(64) uint8_t bytes[2][16 * R];
    const bool seen = tokens > 1 && t.halves == 2 && TOGETHER > 3;
    sums own;

#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            (seen ? out : own)[s][j][0] = (seen ? out : own)[s][j][1] = _mm256_setzero_ps();
    for (uint64_t b = 0; b < o.cols / 32; b++) {
        next_unit(t, &o, b, strips, at, bytes);
        if (strips == 1 || !APART(t))
            step(t, at, o.x, b, strips, tokens, seen ? out : own);
        else
#pragma GCC unroll 2
            for (int s = 0; s < strips; s++)
                step(t, at + s, o.x, b, 1, tokens, own + s);
    }
#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++) {
        rescale(&((const lm_q8_block *)(const void *)(o.x[j] + 2 * o.cols))[-1].d, strips, j,
                seen ? out : own);
#pragma GCC unroll 2
        for (int s = 0; s < strips && !seen; s++)
            out[s][j][0] = own[s][j][0], out[s][j][1] = own[s][j][1];
    }
}

/* acc += the products of the high bytes of row x. Few blocks have high bytes, and the strips are still in the
 * cache. */
INLINE void add_high_bytes(const traits t, const uint8_t *w, const lm_q8_row *x, __m256 acc[2])
{
    for (uint32_t i = 0; i < x->head->wide; i++) {
        uint64_t b = x->listed[i];
        const uint8_t *p = w + b * t.unit + (b / 8 + 1) * t.head;
        const uint8_t *head = p - b % 8 * t.unit - t.head;
        _Alignas(64) uint8_t bytes[16 * R];
        const lm_unit_at u = { p, head, t.head ? scales_of(t, head, bytes) : NULL, (uint32_t)(b % 8) };
        __m256 d = _mm256_set1_ps(x->low[b].d * 128.0f);
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++) {
            __m256i sum[2][TOGETHER][2];
            const uint8_t *high = (const void *)&x->high[b];
            dots(t, &p, &high, half, 1, 1, sum);
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++)
                acc[part] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[0][0][part]), d),
                                            t.d(u, half, part), acc[part]);
        }
    }
}

/* Unpack a strip for all tiles: per unit d of each half, m of each half, then the codes, as bytes or as
 * planes of low and high bits. */
INLINE void unpack(const traits t, const traits to, const uint8_t *p, uint64_t cols, uint8_t *panel)
{
    const uint8_t *head = p, *scales = NULL;
    _Alignas(64) uint8_t bytes[16 * R];

    for (uint64_t b = 0; b < cols / 32; b++, panel += to.unit, p += t.unit) {
        if (t.head && b % 8 == 0) {
            head = p;
            scales = scales_of(t, head, bytes);
            p += t.head;
        }
        const lm_unit_at u = { p, head, scales, (uint32_t)(b % 8) };
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++)
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++) {
                float *d = (float *)(void *)(panel + 64 * half + 32 * part);
                _mm256_storeu_ps(d, t.d(u, half, part));
                if (t.sign != NO_MINIMUM)
                    _mm256_storeu_ps(d + R * t.halves, t.m(u, half, part));
            }
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++) {
                __m256i w = t.codes(p + t.numbers, v, part);
                uint8_t *code = panel + to.numbers + 64 * v + 32 * part;
                _mm256_storeu_si256((void *)code, in_planes(t) ? low4(w) : w);
                if (in_planes(t))
                    _mm256_storeu_si256((void *)(code + PLANE), high4(w));
            }
    }
}

/* ---- kernel table
 * ------------------------------------------------------------------------------------------------ */

/* Suffix of names, cost of unpacking compared with the products, codes, d, m, sign of m, offset, top, halves;
 * in groups, each of which is compiled separately: TYPES. The strips of byte_strips.h are already panels. */
#define STRIPS_PLAIN(X)                                                                  \
    X(q4_0, LITTLE, c_nibbles, d_f16, m_none, NO_MINIMUM, 8, 15, 1)                      \
    X(q4_1, LITTLE, c_nibbles, d_f16, m_f16, PLUS, 0, 15, 1)                             \
    X(q5_0, MUCH, c_nibbles_bit, d_f16, m_none, NO_MINIMUM, 16, 31, 1)                   \
    X(q5_1, MUCH, c_nibbles_bit, d_f16, m_f16, PLUS, 0, 31, 1)
#define STRIPS_TABLES(X)                                                                 \
    X(q8_0, LITTLE, c_bytes, d_f16, m_none, NO_MINIMUM, 128, 255, 1)                     \
    X(iq4_nl, MUCH, c_iq4, d_f16, m_none, NO_MINIMUM, 128, 241, 1)                       \
    X(iq4_xs, MUCH, c_iq4, d_signed, m_none, NO_MINIMUM, 128, 241, 1)                    \
    X(mxfp4, MUCH, c_fp4, d_exponent, m_none, NO_MINIMUM, 12, 24, 1)
#define STRIPS_K(X)                                                                      \
    X(q3_k, MUCH, c_pairs_bit, d_signed_half, m_none, NO_MINIMUM, 4, 7, 2)               \
    X(q4_k, LITTLE, c_nibbles, d_first, m_second, MINUS, 0, 15, 1)                       \
    X(q5_k, MUCH, c_nibbles_bit, d_first, m_second, MINUS, 0, 31, 1)
#define STRIPS_HALVES(X)                                                                 \
    X(q2_k, MUCH, c_pairs, d_low, m_high, MINUS, 0, 3, 2)                                \
    X(q6_k, MUCH, c_nibbles_pair, d_signed_half, m_none, NO_MINIMUM, 32, 63, 2)          \
    X(wide, NEVER, c_plain, d_f32, m_none, NO_MINIMUM, LM_OFFSET_wide, 127, 2)           \
    X(small, NEVER, c_plain, d_f32, m_none, NO_MINIMUM, LM_OFFSET_small, 31, 2)

enum {
    LM_NUMBERS_wide = LM_BYTE_NUMBERS,
    LM_UNIT_wide = LM_BYTE_UNIT,
    LM_HEAD_wide = 0,
    LM_F16S_wide = 0,
    LM_SCALES_wide = 0
};
enum {
    LM_NUMBERS_small = LM_BYTE_NUMBERS,
    LM_UNIT_small = LM_BYTE_UNIT,
    LM_HEAD_small = 0,
    LM_F16S_small = 0,
    LM_SCALES_small = 0
};

#define NAMED_(level, word) lm_tiles_##level##_##word
#define NAMED(word)         NAMED_LATER(LEVEL, word)
#define NAMED_LATER(level, word) NAMED_(level, word)

#define TRAITS(word, codes, d, m, sign, offset, top, halves) \
    ((traits){ codes, d, m, sign, offset, top, halves, LM_STRIP_SIZES(word) })

#define TILE(word, strips, tokens, ...)                                      \
    static void tile_##word##_##strips##_##tokens(const operands *o, sums y) \
    {                                                                        \
        tile(__VA_ARGS__, o, strips, tokens, y);                             \
    }
#define HIGH(word, ...)                                                          \
    static void high_##word(const uint8_t *w, const lm_q8_row *x, __m256 acc[2]) \
    {                                                                            \
        add_high_bytes(__VA_ARGS__, w, x, acc);                                  \
    }

/* The functions for a type of these traits, and those for its panels. */
#define STRIP_TILES(word, ...) \
    TILES(word, __VA_ARGS__) TILE(word, 2, 1, __VA_ARGS__) HIGH(word, __VA_ARGS__)
#define PANEL_NUMBERS(sign, halves)             (64 * (halves) * ((sign) == NO_MINIMUM ? 1 : 2))
#define PANEL_UNIT(sign, top, halves) \
    (PANEL_NUMBERS(sign, halves) + (PLANES && (top) > 127 ? 2 : 1) * PLANE)
#define PANEL_TRAITS(sign, offset, top, halves)                                                              \
    ((traits){ NULL, d_f32, (sign) == NO_MINIMUM ? m_none : (halves) == 2 ? m_after_2 : m_after_1, sign,     \
               offset, top, halves, PANEL_NUMBERS(sign, halves), PANEL_UNIT(sign, top, halves), 0, 0, 0 })
#define PANEL_TILES(word, cost, codes, d, m, sign, offset, top, halves)            \
    LAST_TILES(word##_panel, PANEL_TRAITS(sign, offset, top, halves))              \
    HIGH(word##_panel, PANEL_TRAITS(sign, offset, top, halves))                    \
    static void unpack_##word(const uint8_t *strip, uint64_t cols, uint8_t *panel) \
    {                                                                              \
        unpack(TRAITS(word, codes, d, m, sign, offset, top, halves),               \
               PANEL_TRAITS(sign, offset, top, halves), strip, cols, panel);       \
    }                                                                              \
    static const tiles panel_##word = { TOGETHER, .of = LAST_OF(word##_panel),     \
                                        .high = high_##word##_panel };             \
    extern const tiles NAMED(word);                                                \
    const tiles NAMED(word) = {                                                    \
        .together = TOGETHER,                                                      \
        .of = TILES_OF(word),                                                      \
        .two = tile_##word##_2_1,                                                  \
        .high = high_##word,                                                       \
        .unpack = (cost) >= PANELS_FROM ? unpack_##word : NULL,                    \
        .panel_unit = PANEL_UNIT(sign, top, halves),                               \
        .ahead = LM_HEAD_##word != 0 || (cost) == MUCH,                            \
        .panel = (cost) >= PANELS_FROM ? &panel_##word : NULL,                     \
    };

#define X(word, cost, ...)                       \
    STRIP_TILES(word, TRAITS(word, __VA_ARGS__)) \
    PANEL_TILES(word, cost, __VA_ARGS__)
TYPES(X)
#undef X

#endif
