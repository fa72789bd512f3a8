/* byte_strips.h - types without their own strips (codebooks, ternary, NVFP4, one and two bits) are unpacked
 * to strips of bytes, a few at a time, so that they use the same products as other types.
 *
 * Every value of these types is a scale times an integer of -62 … 62, of types that are called small, of -15
 * … 15. A unit of 32 columns of sixteen rows is
 *
 *   [float d of columns 0-15, [16 rows]][d of columns 16-31][bytes: vector v, row r, column 4v + j at 64 v +
 *       4 r + j]
 *
 * with an offset added to each integer, and units are consecutive as in strips.h. The matrix keeps the layout
 * of the file. */
#ifndef LM_KERNELS_BYTE_STRIPS_H
#define LM_KERNELS_BYTE_STRIPS_H

#include "kernels/kernels.h"

/* id, suffix of function names, form of the bytes, units of 32 columns in a block, what unpacking adds to
 * integers before the form's offset (0: their signs are apart from their magnitudes) */
#define LM_BYTE_TYPES(X)                                                                               \
    X(LM_IQ1_S, iq1_s, small, 8, 16)   X(LM_IQ1_M, iq1_m, small, 8, 16)                                \
    X(LM_IQ2_XXS, iq2_xxs, wide, 8, 0) X(LM_IQ2_XS, iq2_xs, wide, 8, 0) X(LM_IQ2_S, iq2_s, wide, 8, 0) \
    X(LM_IQ3_XXS, iq3_xxs, wide, 8, 0) X(LM_IQ3_S, iq3_s, small, 8, 0)                                 \
    X(LM_TQ1_0, tq1_0, small, 8, 1)    X(LM_TQ2_0, tq2_0, small, 8, 1)                                 \
    X(LM_NVFP4, nvfp4, small, 2, 16)   X(LM_Q1_0, q1_0, small, 4, 1)    X(LM_Q2_0, q2_0, small, 2, 1)

/* The offsets of both forms, and what strips of bytes consist of. */
enum { LM_OFFSET_wide = 64, LM_OFFSET_small = 16 };
enum {
    LM_BYTE_ROWS = 16,
    LM_BYTE_NUMBERS = 2 * 64,
    LM_BYTE_UNIT = LM_BYTE_NUMBERS + 512,
    LM_BYTE_STRIPS = 2
};

/* Unpack rows [from, from + n) of the matrix to a strip, n from 1 to LM_BYTE_ROWS. */
typedef void lm_byte_unpack(uint8_t *strip, const lm_matmul_args *a, uint64_t from, uint32_t n);

/* Compute outputs [a->first, to), a multiple of eight, of one row of x without strips. */
typedef void lm_byte_rows(const lm_matmul_args *a, uint64_t to);

/* Return the function of a type of LM_BYTE_TYPES in plain C; NULL: the type is another. */
lm_byte_unpack *lm_byte_unpack_ref(lm_dtype type);

/* Compute outputs [a->first, a->last) with `run`, which gets LM_BYTE_STRIPS strips of bytes at a time as if
 * they were the whole matrix; those of one row of x with `rows`, if it is not NULL. Scratch: `own` bytes for
 * `run`, a multiple of 64, then the strips. */
void lm_byte_strips_run(const lm_matmul_args *a, lm_byte_unpack *unpack, lm_byte_rows *rows,
                        void (*run)(const lm_matmul_args *a), uint64_t own);
uint64_t lm_byte_strips_scratch(uint64_t cols, uint64_t own);

#endif
