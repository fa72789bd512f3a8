/* strips_pack_lanes.h - pack the blocks of a file into strips, LANES rows at a time. The whole model is
 * packed before its first token, or a few strips at a time whenever they are used (stored.c), so packing must
 * be as fast as reading: a unit's parts are handled as vectors of words throughout, and there is one function
 * per type.
 *
 * rows_lanes.h says what to define before including it. */
#include <stddef.h>
#include <string.h>

#include "kernels/rows_lanes.h"

/* A byte of each row of a strip. In vectors because the compiler does not make them of a loop over bytes at
 * this level of optimisation. */
typedef uint8_t strip_bytes __attribute__((vector_size(LM_STRIP_ROWS)));

/* ---- codes
 * ------------------------------------------------------------------------------------------------------- */

/* Exchange the high fields of a, selected by mask << shift, and the low fields of b, selected by mask. */
INLINE void exchange(words *a, words *b, const int shift, const uint32_t mask)
{
    words t = ((*a >> shift) ^ *b) & mask;

    *b ^= t;
    *a ^= t << shift;
}

/* Transpose in each byte: two-bit field f of w[q] becomes field q of w[f]. */
INLINE void turn_pairs(words w[4])
{
    exchange(&w[0], &w[2], 4, 0x0f0f0f0f);
    exchange(&w[1], &w[3], 4, 0x0f0f0f0f);
    exchange(&w[0], &w[1], 2, 0x33333333);
    exchange(&w[2], &w[3], 2, 0x33333333);
}

/* Transpose in each byte: bit s of w[v] becomes bit v of w[s]. */
INLINE void turn_bits(words w[8])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        exchange(&w[i], &w[i + 4], 4, 0x0f0f0f0f);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        exchange(&w[i / 2 * 4 + i % 2], &w[i / 2 * 4 + i % 2 + 2], 2, 0x33333333);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        exchange(&w[2 * i], &w[2 * i + 1], 1, 0x55555555);
}

/* Rearrange bits of which bit i is column i: every fourth bit goes into one byte. */
INLINE words bits_of_word(const words columns)
{
    words word = columns & 0;

#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        words x = columns >> j & 0x11111111;
        x = (x | x >> 3) & 0x03030303;
        x = (x | x >> 6) & 0x000f000f;
        word |= ((x | x >> 12) & 0xff) << 8 * j;
    }
    return word;
}

/* Store vectors of a unit; `to`: the first of them, at the first of these rows. */
INLINE void put_vectors(uint8_t *to, const words *w, const uint32_t n)
{
#pragma GCC unroll 8
    for (uint32_t v = 0; v < n; v++)
        put_words(to + 4 * R * v, w[v]);
}

/* Store the codes of two units that are in the low and the high halves of 32 bytes. */
INLINE void put_nibbles(uint8_t *low, uint8_t *high, const stored_rows r, uint64_t at)
{
    words a[4], b[4];

    four_words(r, at, a);
    four_words(r, at + 16, b);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        put_words(low + 4 * R * v, (a[v] & 0x0f0f0f0f) | (b[v] & 0x0f0f0f0f) << 4);
        put_words(high + 4 * R * v, (a[v] >> 4 & 0x0f0f0f0f) | (b[v] & 0xf0f0f0f0));
    }
}

/* Store the two-bit codes of eight units: 32 bytes hold 32 columns of four units. */
INLINE void put_pairs(uint8_t *to, const uint32_t unit, const stored_rows r, uint64_t at)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) {
        words w[4];
        four_words(r, at + 16 * i, w);
        turn_pairs(w);
#pragma GCC unroll 4
        for (uint32_t q = 0; q < 4; q++)
            put_words(to + (i / 2 * 4 + q) * unit + i % 2 * 4 * R, w[q]);
    }
}

/* Store the bits of eight units: 32 bytes hold 32 columns, with a bit for each unit. */
INLINE void put_bits(uint8_t *to, const uint32_t unit, const stored_rows r, uint64_t at)
{
    words w[8];

    four_words(r, at, w);
    four_words(r, at + 16, w + 4);
    turn_bits(w);
#pragma GCC unroll 8
    for (uint32_t s = 0; s < 8; s++)
        put_words(to + s * unit, w[s]);
}

/* ---- numbers
 * ----------------------------------------------------------------------------------------------------- */

/* Copy `n` consecutive numbers of `bytes` bytes from each row; `to`: the first number of the first of these
 * rows. */
INLINE void put_numbers(uint8_t *to, const stored_rows r, uint64_t at, const uint32_t n, const uint32_t bytes)
{
    for (uint32_t i = 0; i < n; i++)
#pragma GCC unroll 16
        for (uint32_t row = 0; row < LANES; row++)
            memcpy(to + bytes * (i * R + row), r.p + row * r.stride + at + bytes * i, bytes);
}

/* Write the scales of eight units, from bytes j[scale][row], for all rows of a strip. */
INLINE void write_scales(const lm_strip_layout *l, uint8_t *restrict to, const strip_bytes *restrict j)
{
    const uint32_t quarter = l->scales / 3;
    strip_bytes out[16];

    if (l->scales == 16) {
        memcpy(to, j, 16 * R);
        return;
    }
    for (uint32_t i = 0; i < 2 * quarter; i++)
        out[i] = (j[i] & 15) | j[2 * quarter + i] << 4;
    for (uint32_t i = 0; i < quarter; i++)
        out[2 * quarter + i] = j[i] >> 4 | j[quarter + i] >> 4 << 2 | j[2 * quarter + i] >> 4 << 4 |
                               j[3 * quarter + i] >> 4 << 6;
    memcpy(to, out, (size_t)l->scales * R);
}

/* ---- strips
 * ------------------------------------------------------------------------------------------------------ */

/* Pack the blocks at r of a type with 32 elements per block, as rows `row` onwards of a unit. */
INLINE void pack_unit(const lm_strip_layout *l, uint8_t *unit, const uint32_t row, const stored_rows r)
{
    const uint32_t numbers = 2u * l->unit_f16 + l->unit_u8;
    uint8_t       *codes = unit + R * numbers + 4 * row;
    words          w[8];

    put_numbers(unit + 2 * row, r, 0, l->unit_f16, 2);
    put_numbers(unit + row, r, 0, l->unit_u8, 1);
    four_words(r, numbers + 4u * l->bits, w);
    if (l->bytes)
        four_words(r, numbers + 16, w + 4);
    put_vectors(codes, w, 4u * l->nibbles + 8u * l->bytes);
    if (l->bits) {
        four_words(r, numbers, w);
        put_words(codes + 16 * R, bits_of_word(w[0]));
    }
}

/* Pack the blocks at r of a type with 256 elements per block, as rows `row` onwards of eight units. */
INLINE void pack_eight(const lm_strip_layout *l, uint8_t *strip, const uint32_t row, const stored_rows r,
                       uint8_t *scales)
{
    const uint32_t unit = lm_strip_unit(l);
    uint8_t       *codes = strip + lm_strip_head(l) + 4 * row;
    uint64_t       d = 0;

    switch ((int)l->type) {
    case LM_IQ4_XS:
#pragma GCC unroll 8
        for (uint32_t s = 0; s < 8; s++) {
            words w[4];
            four_words(r, offsetof(lm_iq4_xs, qs) + 16 * s, w);
            put_vectors(codes + s * unit, w, 4);
        }
        break;
    case LM_Q5_K:
        put_bits(codes + 16 * R, unit, r, offsetof(lm_q5_k, qh));
        /* fall through */
    case LM_Q4_K:
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++)
            put_nibbles(codes + 2 * i * unit, codes + (2 * i + 1) * unit, r,
                        (l->bits ? offsetof(lm_q5_k, qs) : offsetof(lm_q4_k, qs)) + 32 * i);
        break;
    case LM_Q6_K:
        d = offsetof(lm_q6_k, d);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++)
            put_nibbles(codes + (i / 2 * 4 + i % 2) * unit, codes + (i / 2 * 4 + i % 2 + 2) * unit, r,
                        offsetof(lm_q6_k, ql) + 32 * i);
        put_pairs(codes + 16 * R, unit, r, offsetof(lm_q6_k, qh));
        break;
    case LM_Q2_K:
        d = offsetof(lm_q2_k, d);
        put_pairs(codes, unit, r, offsetof(lm_q2_k, qs));
        break;
    case LM_Q3_K:
        d = offsetof(lm_q3_k, d);
        put_pairs(codes, unit, r, offsetof(lm_q3_k, qs));
        put_bits(codes + 8 * R, unit, r, offsetof(lm_q3_k, hmask));
        break;
    default: break;
    }
    put_numbers(strip + 2 * row, r, d, l->head_f16, 2);
    put_scales(l->type, r, scales + row);
}

/* Pack rows [0, n) of a strip, n a multiple of LANES, 256 columns at a time: the output then stays in the
 * first-level cache, and each row is read in whole cache lines. The rows of the next strip, which follow in
 * memory, are prefetched in the order of their addresses. */
INLINE void pack_strip(const lm_strip_layout *l, uint8_t *strip, const uint8_t *stored, uint64_t row_bytes,
                       uint32_t n, uint64_t units)
{
    const uint32_t head = lm_strip_head(l), unit = lm_strip_unit(l);
    const uint64_t block = lm_dtype_of(l->type)->bytes;
    const uint8_t *next = stored + R * row_bytes;
    strip_bytes    scales[16] = { 0 };

    for (uint64_t b = 0; b < units; b += 8, strip += head + 8 * (uint64_t)unit) {
        uint32_t many = l->head_f16 ? 1 : units - b < 8 ? (uint32_t)(units - b) : 8;
        for (uint32_t s = 0; s < many; s++, stored += block) {
            for (uint32_t row = 0; row < n; row += LANES) {
                const stored_rows r = { stored + row * row_bytes, row_bytes };
                for (uint64_t i = 0; i < LANES * block; i += 64)
                    ahead(next + i);
                next += LANES * block;
                if (l->head_f16)
                    pack_eight(l, strip, row, r, (uint8_t *)scales);
                else
                    pack_unit(l, strip + s * unit, row, r);
            }
        }
        if (l->head_f16)
            write_scales(l, strip + 2 * R * l->head_f16, scales);
    }
}

INLINE void pack_rows(const lm_strip_layout *l, uint8_t *dst, const uint8_t *stored, uint64_t cols,
                      uint64_t first, uint64_t last)
{
    const lm_dtype_info *t = lm_dtype_of(l->type);
    uint64_t             row_bytes = cols / t->block * t->bytes, bytes = lm_strip_bytes(l, cols);

    for (uint64_t at = first; at < last; at += R) {
        uint8_t *strip = dst + at / R * bytes;
        uint32_t n     = last - at < R ? (uint32_t)(last - at) : R;
        if (n < R && LANES > 1) {
            lm_strip_pack(l, dst, stored, last, cols, at, last);
            return;
        }
        if (n < R)
            memset(strip, 0, bytes);
        pack_strip(l, strip, stored + at * row_bytes, row_bytes, n, cols / 32);
    }
}

/* ---- functions per type
 * ------------------------------------------------------------------------------------------ */

/* The layout is a constant inside the function, so every loop over its parts has a known length. */
#define PACKER(id, word, ...)                                                                   \
    static void pack_##word(uint8_t *dst, const uint8_t *stored, uint64_t cols, uint64_t first, \
                            uint64_t last)                                                      \
    {                                                                                           \
        static const lm_strip_layout l = { id, __VA_ARGS__ };                                   \
        pack_rows(&l, dst, stored, cols, first, last);                                          \
    }
LM_STRIP_LAYOUTS(PACKER)

INLINE void pack_type(const lm_strip_layout *l, void *dst, const void *stored, uint64_t cols, uint64_t first,
                      uint64_t last)
{
#define ONE(id, word, ...) \
    case id: pack_##word(dst, stored, cols, first, last); break;
    switch ((int)l->type) {
        LM_STRIP_LAYOUTS(ONE)
    default: break;
    }
#undef ONE
}
