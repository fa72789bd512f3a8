/* tile_avx512.h - multiply two strips with a few rows of x: a tile, the products of high bytes, and unpacking
 * of a strip for many tiles. strips_avx512.c describes the arithmetic; a type is a record of compile-time
 * constants for every inlined loop. */
#ifndef LM_KERNELS_TILE_AVX512_H
#define LM_KERNELS_TILE_AVX512_H

#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strips.h"
#include "kernels/x86/avx512/codes_avx512.h"

enum { TOKENS = 8, HIGHS = 256 };    /* maximum rows of x in a tile; maximum blocks with high bytes in a
                                        list */

typedef __m512i code_fn(const uint8_t *p, const int v);
typedef __m512  number_fn(const lm_unit_at u, int half);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;

/* A type, as compile-time constants for every inlined loop. */
typedef struct traits {
    code_fn   *codes;
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        offset;               /* of the codes */
    int        halves;               /* 2: a scale per 16 columns */
    uint32_t   numbers, unit;        /* bytes of the numbers that precede the codes, of a unit */
    uint32_t   head, f16s, scales;   /* bytes of the head of eight units; of its f16 numbers; of its scales,
                                        per row */
} traits;

/* A block that has high bytes. */
typedef struct high_at {
    uint32_t block, row;
} high_at;

/* The operands of a tile: strips at w and w + strip, rows of x from their first block on. strip is 0 if there
 * is only one strip. */
typedef struct operands {
    const uint8_t *w;
    uint64_t strip;                  /* bytes */
    const uint8_t *x[TOKENS];
    uint64_t cols;
    uint64_t ahead, near;            /* prefetch distances in bytes, to the second and the first-level cache;
                                        0: no prefetch */
    uint64_t turn, turns;            /* units turn, turn + turns, … prefetch */
    uint64_t below;                  /* prefetch distance in bytes for rows of x; 0: no prefetch */
    unsigned n_high;                 /* blocks with high bytes; more than HIGHS: the list is not used */
    high_at *high;                   /* [HIGHS], ascending within each row */
} operands;

/* Return the start of an integer sum: minus the offset times the sum of the activations' codes. */
INLINE __m512i start_of(const traits t, const uint8_t *block, const int half)
{
    const lm_q8_block *x = (const void *)block;

    if (!t.offset)
        return _mm512_setzero_si512();
    __m512i start = _mm512_set1_epi32(t.halves == 2 ? x->half_start[half] : x->start);
    if (t.halves == 2)
        return t.offset == 128 ? _mm512_slli_epi32(start, 2)
               : t.offset == 4 ? _mm512_srai_epi32(start, 3)
                               : start;
    if (t.offset == 12)
        return _mm512_add_epi32(_mm512_srai_epi32(start, 4), _mm512_srai_epi32(start, 5));
    return t.offset == 8 ? _mm512_srai_epi32(start, 4) : t.offset == 16 ? _mm512_srai_epi32(start, 3) : start;
}

INLINE __m512i four(const uint8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm512_set1_epi32(v);
}

/* Prefetch the lines that begin in [from, to) bytes past p, further on by o->ahead and by o->near bytes. */
INLINE void prefetch_lines(const operands *o, const uint8_t *p, const uint32_t from, const uint32_t to)
{
    for (uint32_t i = (from + 63) / 64 * 64; i < to; i += 64) {
        if (o->ahead)
            _mm_prefetch((const char *)p + o->ahead + i, _MM_HINT_T1);
        if (o->near)
            _mm_prefetch((const char *)p + o->near + i, _MM_HINT_T0);
    }
}

/* Prefetch an eighth of a unit's lines, with every four columns: all at once would occupy the fill buffers
 * that loads of x need. */
INLINE void prefetch_eighth(const traits t, const operands *o, const uint8_t *const *p, const int v)
{
#pragma GCC unroll 2
    for (int s = 0; s < 2; s++)
        prefetch_lines(o, p[s], (uint32_t)v * t.unit / 8, (uint32_t)(v + 1) * t.unit / 8);
}

/* Compute the integer sums of a unit, or of half of one; `asks`: also prefetch later units. In assembly
 * because the compiler would fold the broadcast into every product. */
INLINE void dots(const traits t, const operands *o, const uint8_t *const *p, uint64_t at, const bool asks,
                 const int half, const int tokens, __m512i sum[2][TOKENS])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;

#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++)
        sum[0][j] = sum[1][j] = start_of(t, o->x[j] + at, half);
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        if (asks)
            prefetch_eighth(t, o, p, v);
        __m512i w0 = t.codes(p[0] + t.numbers, v), w1 = t.codes(p[1] + t.numbers, v);
#pragma GCC unroll 8
        for (int j = 0; j < tokens; j++) {
            __m512i columns = four(o->x[j] + at + 4 * v);
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[0][j]) : "v"(w0), "v"(columns));
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[1][j]) : "v"(w1), "v"(columns));
        }
    }
}

/* Scales of types without a minimum are signed. */
INLINE const uint8_t *scales_of(const traits t, const uint8_t *head, uint8_t *bytes)
{
    return lm_strip_scales(head + t.f16s, t.scales, t.sign == NO_MINIMUM ? 32 : 0, bytes);
}

/* A panel: bytes of a unit's numbers, bytes of a unit with `bytes` bytes of codes per row, its type. */
#define LM_PANEL_NUMBERS(sign, halves)     (4u * R * (unsigned)(halves) * ((sign) == NO_MINIMUM ? 1u : 2u))
#define LM_PANEL_UNIT(sign, halves, bytes) (LM_PANEL_NUMBERS(sign, halves) + (bytes)*R)
#define LM_PANEL(codes, sign, offset, halves, bytes)                                                       \
    ((traits){ codes, d_panel, m_panel_##halves, (sign) == NO_MINIMUM ? NO_MINIMUM : PLUS, offset, halves, \
               LM_PANEL_NUMBERS(sign, halves), LM_PANEL_UNIT(sign, halves, bytes), 0, 0, 0 })

/* Store the numbers of a unit in the layout of panels: d of each half, then m of each half, to be added
 * (PLUS), as float32. */
INLINE void put_numbers(const traits t, const lm_unit_at u, uint8_t *to)
{
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        _mm512_store_ps(to + 64 * half, t.d(u, half));
        if (t.sign == PLUS)
            _mm512_store_ps(to + 64 * (t.halves + half), t.m(u, half));
        if (t.sign == MINUS)
            _mm512_store_ps(to + 64 * (t.halves + half), _mm512_mul_ps(t.m(u, half), _mm512_set1_ps(-1.0f)));
    }
}

/* Return the type that reads numbers stored by put_numbers. */
INLINE traits with_put_numbers(traits t)
{
    t.d = d_panel;
    t.m = t.sign == NO_MINIMUM ? m_none : t.halves == 2 ? m_panel_2 : m_panel_1;
    t.sign = t.sign == NO_MINIMUM ? NO_MINIMUM : PLUS;
    return t;
}

/* acc += w's d * integer sum + m * (sum of x), in units of x's d. Types that subtract m have stored -m. */
INLINE void finish(const traits t, const operands *o, const lm_unit_at *u, uint64_t b, const int half,
                   const int tokens, __m512i sum[2][TOKENS], __m512 acc[2][TOKENS])
{
    __m512 d[2], m[2];

#pragma GCC unroll 2
    for (int s = 0; s < 2; s++) {
        d[s] = t.d(u[s], half);
        m[s] = t.m(u[s], half);
    }
#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++) {
        const lm_q8_block *x = (const void *)(o->x[j] + 64 * b);
        __m512 total = _mm512_set1_ps(t.halves == 2 ? x->half_sum[half] : x->sum);
#pragma GCC unroll 2
        for (int s = 0; s < 2; s++) {
            acc[s][j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[s][j]), d[s], acc[s][j]);
            if (t.sign == PLUS)
                acc[s][j] = _mm512_fmadd_ps(m[s], total, acc[s][j]);
        }
    }
}

/* Convert the sums from units of one group's d to those of the next. */
INLINE void rescale(const operands *o, uint64_t b, const int tokens, __m512 acc[2][TOKENS])
{
#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++) {
        __m512 ratio = _mm512_set1_ps(((const lm_q8_block *)(const void *)(o->x[j] + 64 * b))->ratio);
#pragma GCC unroll 2
        for (int s = 0; s < 2; s++)
            acc[s][j] = _mm512_mul_ps(acc[s][j], ratio);
    }
}

/* Multiply two strips with `tokens` rows of x. */
INLINE void tile(const traits t, const operands *given, const int tokens, __m512 out[2][TOKENS])
{
    const operands copy = *given, *o = &copy;        /* a copy that cannot alias stays in registers */
    const traits finished = t.head ? with_put_numbers(t) : t;
    const uint32_t numbers = LM_PANEL_NUMBERS(t.sign, t.halves);
    const uint8_t *p[2] = { o->w, o->w + o->strip };
    _Alignas(64) uint8_t eight[2][8 * 256];          /* numbers of eight units */
    uint64_t next = o->ahead ? o->turn : UINT64_MAX;
    __m512 acc[2][TOKENS];

#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++)
        acc[0][j] = acc[1][j] = _mm512_setzero_ps();
    for (uint64_t b = 0; b < o->cols / 32; b++) {
        const bool asks = b == next;
        next += asks ? o->turns : 0;
        if (t.head && b % 8 == 0) {
#pragma GCC unroll 2
            for (int s = 0; s < 2; s++) {
                _Alignas(64) uint8_t bytes[16 * R];
                const uint8_t *scales = scales_of(t, p[s], bytes);
#pragma GCC unroll 8
                for (uint32_t i = 0; i < 8; i++)
                    put_numbers(t, (lm_unit_at){ .head = p[s], .scales = scales, .of8 = i },
                                eight[s] + i * numbers);
                if (asks)
                    prefetch_lines(o, p[s], 0, t.head);
                p[s] += t.head;
            }
        }
        if (o->below) {
#pragma GCC unroll 8
            for (int j = 0; j < tokens; j++)
                _mm_prefetch((const char *)o->x[j] + 64 * b + o->below, _MM_HINT_T1);
        }
        if (b % LM_Q8_GROUP == 0)
            rescale(o, b, tokens, acc);
        const uint64_t at = b % 8 * numbers;
        const lm_unit_at u[2] = { { .unit = t.head ? eight[0] + at : p[0] },
                                  { .unit = t.head ? eight[1] + at : p[1] } };
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++) {
            __m512i sum[2][TOKENS];
            dots(t, o, p, 64 * b, asks, half, tokens, sum);
            finish(finished, o, u, b, half, tokens, sum, acc);
        }
        p[0] += t.unit;
        p[1] += t.unit;
    }
#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++) {
        __m512 d = _mm512_set1_ps(((const lm_q8_block *)(const void *)(o->x[j] + 2 * o->cols))[-1].d);
#pragma GCC unroll 2
        for (int s = 0; s < 2; s++)
            out[s][j] = _mm512_mul_ps(acc[s][j], d);
    }
}

/* Return whether codes can be read at a variable index. */
INLINE bool any_place(const traits t)
{
    return t.codes == c_panel || t.codes == c_bytes || t.codes == c_nibbles;
}

INLINE __m512i codes_at(const traits t, const uint8_t *p, const int v)
{
    return t.codes == c_nibbles ? nibbles_at(p, v) : t.codes(p, v);
}

/* Compute the integer sums of a unit, or of half of one, with those groups of four high bytes of a row that
 * are not all zero. Usually there is one such group, at an unpredictable index. */
INLINE void some_dots(const traits t, const uint8_t *x, const lm_unit_at *u, const uint32_t fours,
                      const int half, __m512i sum[2])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;

    sum[0] = sum[1] = start_of(t, x, half);
    if (any_place(t) && !__builtin_constant_p(fours)) {
        for (uint32_t left = t.halves == 2 ? fours & 15u << from : fours; left; left &= left - 1) {
            const int v = __builtin_ctz(left);
            __m512i columns = four(x + 4 * v);
#pragma GCC unroll 2
            for (int s = 0; s < 2; s++)
                sum[s] = _mm512_dpbusd_epi32(sum[s], codes_at(t, u[s].unit + t.numbers, v), columns);
        }
        return;
    }
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        if (!(fours >> v & 1))
            continue;
        __m512i columns = four(x + 4 * v);
#pragma GCC unroll 2
        for (int s = 0; s < 2; s++)
            sum[s] = _mm512_dpbusd_epi32(sum[s], t.codes(u[s].unit + t.numbers, v), columns);
    }
}

/* The operands of the high bytes of a block. */
typedef struct high_unit {
    const uint8_t *x;                /* the row's block of high bytes */
    lm_unit_at at[2];
    uint32_t fours;
    __m512   d;
} high_unit;

INLINE void high_half(const traits t, const high_unit *u, const uint32_t fours, const int half, __m512 acc[2])
{
    __m512i sum[2];

    some_dots(t, u->x, u->at, fours, half, sum);
#pragma GCC unroll 2
    for (int s = 0; s < 2; s++)
        acc[s] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum[s]), u->d), t.d(u->at[s], half),
                                 acc[s]);
}

/* acc += the products of a row's high bytes in block b. Few blocks have high bytes, and the strips are still
 * in the cache. */
INLINE void high_block(const traits t, const operands *o, const uint8_t *x, uint64_t b, __m512 acc[2])
{
    const uint8_t *unit = o->w + b * t.unit + (b / 8 + 1) * t.head, *eight = unit - b % 8 * t.unit - t.head;
    const uint8_t *high = x + 2 * o->cols + 64 * b;
    _Alignas(64) uint8_t bytes[2][16 * R];
    high_unit u = {
        .x = high, .fours = ((const lm_q8_block *)(const void *)high)->fours,
        .d = _mm512_set1_ps(((const lm_q8_block *)(const void *)(x + 64 * b))->d * 128.0f),
    };
#pragma GCC unroll 2
    for (int s = 0; s < 2; s++, unit += o->strip, eight += o->strip)
        u.at[s] = (lm_unit_at){ unit, eight, t.head ? scales_of(t, eight, bytes[s]) : NULL,
                                (uint32_t)(b % 8) };

    if (u.fours == 0xff) {                           /* as in rows of fifteen bits everywhere */
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++)
            high_half(t, &u, 0xff, half, acc);
    } else if (t.halves == 1) {
        high_half(t, &u, u.fours, 0, acc);
    } else if (any_place(t)) {
        for (unsigned left = (u.fours & 15 ? 1 : 0) | (u.fours >> 4 ? 2 : 0); left; left &= left - 1)
            high_half(t, &u, u.fours, __builtin_ctz(left), acc);
    } else {
        if (u.fours & 15)
            high_half(t, &u, u.fours, 0, acc);
        if (u.fours >> 4)
            high_half(t, &u, u.fours, 1, acc);
    }
}

/* The same for all blocks with high bytes, ascending within each row. A list of them avoids mispredicted
 * branches at the ends of rows. */
INLINE void high_bytes(const traits t, const operands *given, uint64_t tokens, __m512 acc[2][TOKENS])
{
    const operands copy = *given, *o = &copy;

    for (unsigned i = 0; i < o->n_high && o->n_high <= HIGHS; i++) {
        const high_at at = o->high[i];
        __m512 both[2] = { acc[0][at.row], acc[1][at.row] };
        high_block(t, o, o->x[at.row], at.block, both);
        acc[0][at.row] = both[0];
        acc[1][at.row] = both[1];
    }
    for (uint64_t j = 0; j < tokens && o->n_high > HIGHS; j++) {
        const lm_q8_row x = lm_q8_row_of_low(o->x[j], o->cols);
        __m512 both[2] = { acc[0][j], acc[1][j] };
        for (uint32_t i = 0; i < x.head->wide; i++)
            high_block(t, o, o->x[j], x.listed[i], both);
        acc[0][j] = both[0];
        acc[1][j] = both[1];
    }
}

/* Unpack a strip for all tiles: per unit d of each half and m of each half, to be added (PLUS), as float32,
 * then the codes, as bytes with another offset (`bytes`) or unchanged. */
INLINE void unpack(const traits t, const uint8_t *p, uint64_t cols, uint8_t *to, const bool bytes,
                   const int offset)
{
    const int8_t more = (int8_t)(uint8_t)(unsigned)(offset - t.offset);
    const uint8_t *head = p, *scales = NULL;
    _Alignas(64) uint8_t spread[16 * R];

    for (uint64_t b = 0; b < cols / 32; b++, p += t.unit) {
        if (t.head && b % 8 == 0) {
            head = p;
            scales = scales_of(t, head, spread);
            p += t.head;
        }
        const lm_unit_at u = { p, head, scales, (uint32_t)(b % 8) };
        put_numbers(t, u, to);
        to += LM_PANEL_NUMBERS(t.sign, t.halves);
#pragma GCC unroll 8
        for (int v = 0; v < 8 && bytes; v++, to += 64)
            _mm512_store_si512(to, more ? _mm512_add_epi8(t.codes(p + t.numbers, v), _mm512_set1_epi8(more))
                                        : t.codes(p + t.numbers, v));
        for (uint32_t at = t.numbers; at < t.unit && !bytes; at += 64, to += 64)
            _mm512_store_si512(to, plane(p + at, 0));
    }
}

#endif
