/* strips.h - the layout of quantised matrices for the integer kernels.
 *
 * A strip is R = 16 rows of the matrix (32-bit lanes of one or more vectors); the last strip is padded with
 * rows of zeros. It is one sequential stream of units of 32 columns. A lane of a vector holds four
 * consecutive columns of one row, so a product with four activations broadcast to all lanes gives R outputs,
 * and no horizontal sum is ever needed.
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
 *             low four bits in byte [j % (n/2)][R], the low half first, then high two in byte [j % (n/4)][R],
 *                 field j / (n/4)
 *
 * strips.c defines the meaning of the numbers; a strip takes as many bytes as in the file. In K types whose
 * numbers fill whole cache lines, planes are aligned to cache lines too. The activations are those of
 * q8_rows.h. */
#ifndef LM_KERNELS_STRIPS_H
#define LM_KERNELS_STRIPS_H

#include "kernels/kernels.h"

enum { LM_STRIP_ROWS = 16 };

typedef struct lm_strip_layout {
    lm_dtype type;
    uint8_t  head_f16, scales;   /* per row and 256 columns: f16 numbers; bytes of scales: 16, or 12 or 6 of
                                    six-bit ones */
    uint8_t  unit_f16, unit_u8;  /* per row and 32 columns: f16 numbers, bytes */
    uint8_t  nibbles, bytes, pairs, bits;
} lm_strip_layout;

/* Every type that has strips: id, suffix of names, then the members above. The numbers of a row, in order: d,
 * or d and m; in K types d and dmin in the head, and a scale and a minimum per unit (Q2_K: both in one byte
 * per 16 columns; Q3_K: scale + 32 per 16 columns; Q6_K: a signed scale per 16 columns; IQ4_XS: scale + 32).
 * MXFP4: the exponent. */
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

/* Sizes of a type as constants, in bytes: the numbers that precede a unit's codes, the unit, the f16 numbers
 * of the head of eight units, the scales of a row, the whole head. */
#define LM_STRIP_CONSTANTS(id, word, head_f16, scales, unit_f16, unit_u8, nibbles, bytes, pairs, bits)  \
    enum {                                                                                              \
        LM_NUMBERS_##word = LM_STRIP_ROWS * (2 * (unit_f16) + (unit_u8)),                               \
        LM_UNIT_##word    = LM_NUMBERS_##word +                                                         \
                            LM_STRIP_ROWS * (16 * (nibbles) + 32 * (bytes) + 8 * (pairs) + 4 * (bits)), \
        LM_F16S_##word    = LM_STRIP_ROWS * 2 * (head_f16),                                             \
        LM_SCALES_##word  = scales,                                                                     \
        LM_HEAD_##word    = LM_F16S_##word + LM_STRIP_ROWS * (scales),                                  \
    };
LM_STRIP_LAYOUTS(LM_STRIP_CONSTANTS)
#define LM_STRIP_SIZES(word) LM_NUMBERS_##word, LM_UNIT_##word, LM_HEAD_##word, LM_F16S_##word, \
    LM_SCALES_##word

/* A unit as kernels read it: its address; for its group of eight units the head and the scales as bytes
 * [j][R]; its index in that group. */
typedef struct lm_unit_at {
    const uint8_t *unit, *head, *scales;
    uint32_t       of8;
} lm_unit_at;

/* Return the scales of eight units of a strip as bytes [16 or 8][R]: `from` itself, or six-bit scales
 * unpacked to `to`, each minus `offset`. `scales`: bytes per row; the function is fast if it is a
 * constant. */
static inline __attribute__((always_inline)) const uint8_t *
lm_strip_scales(const uint8_t *restrict from, const uint32_t scales, const uint8_t offset,
                uint8_t *restrict to)
{
    const uint32_t quarter = scales / 3 * LM_STRIP_ROWS;

    if (scales != 12 && scales != 6)
        return from;
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; q++)
        for (uint32_t i = 0; i < quarter; i++) {
            uint8_t low = from[q % 2 * quarter + i] >> q / 2 * 4 & 15,
                    high = from[2 * quarter + i] >> 2 * q & 3;
            to[q * quarter + i] = (uint8_t)((low | high << 4) - offset);
        }
    return to;
}

/* Return the layout of a type; NULL if it has no strips. */
const lm_strip_layout *lm_strip_of(lm_dtype type);

/* Return the bytes of a unit, of the head of 256 columns, of a strip. */
static inline uint32_t lm_strip_unit(const lm_strip_layout *l)
{
    return LM_STRIP_ROWS *
           (2u * l->unit_f16 + l->unit_u8 + 16u * l->nibbles + 32u * l->bytes + 8u * l->pairs + 4u * l->bits);
}

static inline uint32_t lm_strip_head(const lm_strip_layout *l)
{
    return LM_STRIP_ROWS * (2u * l->head_f16 + l->scales);
}

static inline uint64_t lm_strip_bytes(const lm_strip_layout *l, uint64_t cols)
{
    return cols / 32 * lm_strip_unit(l) + (l->head_f16 ? cols / 256 * lm_strip_head(l) : 0);
}

/* packed_bytes, pack and row of lm_matmul. */
uint64_t lm_strip_packed_bytes(const lm_strip_layout *l, uint64_t rows, uint64_t cols);
void lm_strip_pack(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                   uint64_t first, uint64_t last);
void     lm_strip_row(const lm_strip_layout *l, float *dst, const void *w, uint64_t cols, uint64_t row);

#endif
