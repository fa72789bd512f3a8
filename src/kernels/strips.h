/* strips.h - the layout of quantised matrices behind the integer kernels.
 *
 * A strip is R = 16 rows of the matrix (32-bit lanes of one vector or several); the last one is padded with rows of zeros. It is
 * one sequential stream of units of 32 columns. A lane of a vector holds four consecutive columns of one row, so a product
 * with four activations in all lanes gives R outputs and no lane is ever summed across.
 *
 *   unit    [numbers: f16 [R] each][bytes [R] each][planes]
 *   eight   of K types: [numbers: f16 [R] each][scales][planes of eight units]
 *   planes  byte 4r + j of vector v belongs to row r and column 4v + j:
 *     bytes    8 vectors of whole codes
 *     nibbles  4 vectors; low bits: vectors 0-3, high bits: vectors 4-7
 *     pairs    2 vectors of two-bit fields, field f of the first: vector f, of the second: vector 4 + f
 *     bits     1 vector; bit v: vector v
 *   A code is nibble | pair << 4, nibble | bit << 4, pair, or pair | bit << 2.
 *   scales  of 256 columns, n = 8 or 16, number j of row r in unit 8j / n: 16 bytes [j][R], or six bits each:
 *             low four bits in byte [j % (n/2)][R], the low half first, then high two in byte [j % (n/4)][R], field j / (n/4)
 *
 * What the numbers mean is in strips.c; the sizes are those of the file. Planes of K types whose numbers fill whole cache lines
 * lie on whole cache lines too. The activations are those of q8_rows.h. */
#ifndef LM_KERNELS_STRIPS_H
#define LM_KERNELS_STRIPS_H

#include "kernels/kernels.h"

enum { LM_STRIP_ROWS = 16 };

typedef struct lm_strip_layout {
    lm_dtype type;
    uint8_t  head_f16, scales;   /* numbers of a row for 256 columns, bytes of its scales: 16 or six-bit ones in 12 or 6 */
    uint8_t  unit_f16, unit_u8;  /* numbers and bytes of a row for 32 columns */
    uint8_t  nibbles, bytes, pairs, bits;
} lm_strip_layout;

/* Every type that has one: id, word for names, then as above. Numbers of a row, in order: d; d, m; for K types d, dmin ahead and of each
 * unit scale and minimum (Q2_K: both in a byte for each 16 columns; Q3_K: a scale + 32 for each 16; Q6_K: a signed scale for each 16;
 * IQ4_XS: a scale + 32). MXFP4: its exponent. */
#define LM_STRIP_LAYOUTS(X)                        \
    X(LM_Q4_0,   q4_0,   0, 0,  1, 0,  1, 0, 0, 0) \
    X(LM_Q4_1,   q4_1,   0, 0,  2, 0,  1, 0, 0, 0) \
    X(LM_Q5_0,   q5_0,   0, 0,  1, 0,  1, 0, 0, 1) \
    X(LM_Q5_1,   q5_1,   0, 0,  2, 0,  1, 0, 0, 1) \
    X(LM_Q8_0,   q8_0,   0, 0,  1, 0,  0, 1, 0, 0) \
    X(LM_IQ4_NL, iq4_nl, 0, 0,  1, 0,  1, 0, 0, 0) \
    X(LM_MXFP4,  mxfp4,  0, 0,  0, 1,  1, 0, 0, 0) \
    X(LM_Q2_K,   q2_k,   2, 16, 0, 0,  0, 0, 1, 0) \
    X(LM_Q3_K,   q3_k,   1, 12, 0, 0,  0, 0, 1, 1) \
    X(LM_Q4_K,   q4_k,   2, 12, 0, 0,  1, 0, 0, 0) \
    X(LM_Q5_K,   q5_k,   2, 12, 0, 0,  1, 0, 0, 1) \
    X(LM_Q6_K,   q6_k,   1, 16, 0, 0,  1, 0, 1, 0) \
    X(LM_IQ4_XS, iq4_xs, 1, 6,  0, 0,  1, 0, 0, 0)

/* Bytes of a type as constants: of the numbers ahead of a unit's codes and of the unit, of what is ahead of eight units and of the f16 in
 * that; of a row's scales. */
#define LM_STRIP_CONSTANTS(id, word, head_f16, scales, unit_f16, unit_u8, nibbles, bytes, pairs, bits)                          \
    enum {                                                                                                                      \
        LM_NUMBERS_##word = LM_STRIP_ROWS * (2 * (unit_f16) + (unit_u8)),                                                       \
        LM_UNIT_##word    = LM_NUMBERS_##word + LM_STRIP_ROWS * (16 * (nibbles) + 32 * (bytes) + 8 * (pairs) + 4 * (bits)),     \
        LM_F16S_##word    = LM_STRIP_ROWS * 2 * (head_f16),                                                                     \
        LM_SCALES_##word  = scales,                                                                                             \
        LM_HEAD_##word    = LM_F16S_##word + LM_STRIP_ROWS * (scales),                                                          \
    };
LM_STRIP_LAYOUTS(LM_STRIP_CONSTANTS)
#define LM_STRIP_SIZES(word) LM_NUMBERS_##word, LM_UNIT_##word, LM_HEAD_##word, LM_F16S_##word, LM_SCALES_##word

/* A unit as kernels read it: where it is, and of its eight, which one of them it is, the numbers and the scales as bytes [j][R]. */
typedef struct lm_unit_at {
    const uint8_t *unit, *head, *scales;
    uint32_t       of8;
} lm_unit_at;

/* Scales of eight units of a strip as bytes [16 or 8][R]: where they are, or for six bits spread to `to`, each less `offset`.
 * `scales`: bytes of a row. Fast where that is a constant. */
static inline __attribute__((always_inline)) const uint8_t *
lm_strip_scales(const uint8_t *restrict from, const uint32_t scales, const uint8_t offset, uint8_t *restrict to)
{
    const uint32_t quarter = scales / 3 * LM_STRIP_ROWS;

    if (scales != 12 && scales != 6)
        return from;
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; q++)
        for (uint32_t i = 0; i < quarter; i++) {
            uint8_t low = from[q % 2 * quarter + i] >> q / 2 * 4 & 15, high = from[2 * quarter + i] >> 2 * q & 3;
            to[q * quarter + i] = (uint8_t)((low | high << 4) - offset);
        }
    return to;
}

/* NULL when the type has none. */
const lm_strip_layout *lm_strip_of(lm_dtype type);

/* Bytes of a unit, of the numbers ahead of 256 columns, of a strip. */
static inline uint32_t lm_strip_unit(const lm_strip_layout *l)
{
    return LM_STRIP_ROWS * (2u * l->unit_f16 + l->unit_u8 + 16u * l->nibbles + 32u * l->bytes + 8u * l->pairs + 4u * l->bits);
}

static inline uint32_t lm_strip_head(const lm_strip_layout *l)
{
    return LM_STRIP_ROWS * (2u * l->head_f16 + l->scales);
}

static inline uint64_t lm_strip_bytes(const lm_strip_layout *l, uint64_t cols)
{
    return cols / 32 * lm_strip_unit(l) + (l->head_f16 ? cols / 256 * lm_strip_head(l) : 0);
}

/* The matmul interface. */
uint64_t lm_strip_packed_bytes(const lm_strip_layout *l, uint64_t rows, uint64_t cols);
void     lm_strip_pack(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols, uint64_t first,
                       uint64_t last);
void     lm_strip_row(const lm_strip_layout *l, float *dst, const void *w, uint64_t cols, uint64_t row);

#endif
