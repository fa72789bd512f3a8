/* codecs.h - the pack and unpack functions in the table of dtype.c, and their common helpers.
 *
 * unpack: convert n elements in blocks at `src` (any alignment) to float32. The order of operations is that
 * of the formats' reference (sub-block scale first, then the element), so results are bit-identical. pack:
 * convert float32 to blocks at `dst` (any alignment). Finite input gives the documented quality; infinities
 * and NaN give some valid block. quick: the same as pack, without the search for the best scales
 * (lm_pack_quickly). None of them allocates or fails; n is a multiple of the block. */
#ifndef LM_TENSOR_CODECS_H
#define LM_TENSOR_CODECS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Define the function for rows of blocks from a function for one block. */
#define LM_UNPACK_ROWS(name, elements)                                            \
    void lm_unpack_##name(float *dst, const void *src, size_t n)                  \
    {                                                                             \
        const lm_##name *b = src;                                                 \
        for (size_t i = 0; i < n / (elements); i++)                               \
            unpack_##name(dst + i * (elements), &b[i]);                           \
    }

#define LM_PACK_ROWS(name, elements)                                              \
    void lm_pack_##name(void *dst, const float *src, size_t n)                    \
    {                                                                             \
        lm_##name *b = dst;                                                       \
        for (size_t i = 0; i < n / (elements); i++)                               \
            pack_##name(&b[i], src + i * (elements));                             \
    }

/* Define the pack function and its quick variant from write_NAME(block, x, quick). */
#define LM_WRITE_ROWS(name, elements)                                                  \
    static void pack_##name(lm_##name *b, const float *x) { write_##name(b, x, false); } \
    LM_PACK_ROWS(name, elements)                                                       \
    void lm_quick_##name(void *dst, const float *src, size_t n)                        \
    {                                                                                  \
        lm_##name *b = dst;                                                            \
        for (size_t i = 0; i < n / (elements); i++)                                    \
            write_##name(&b[i], src + i * (elements), true);                           \
    }

/* Convert x to an integer in [lo, hi] by truncation; lo if x is NaN. Converting a float outside the range of
 * int is undefined in C. */
static inline int lm_truncate(float x, int lo, int hi)
{
    if (!(x > (float)lo))
        return lo;
    return x < (float)hi ? (int)x : hi;
}

/* The same, but round to nearest, ties to even. */
static inline int lm_nearest(float x, int lo, int hi)
{
    if (!(x > (float)lo))
        return lo;
    return x < (float)hi ? (int)lrintf(x) : hi;
}

typedef void lm_unpack_fn(float *dst, const void *src, size_t n);
typedef void lm_pack_fn(void *dst, const float *src, size_t n);

lm_unpack_fn lm_unpack_f32, lm_unpack_f16, lm_unpack_bf16, lm_unpack_f64;
lm_unpack_fn lm_unpack_i8, lm_unpack_i16, lm_unpack_i32, lm_unpack_i64;
lm_unpack_fn lm_unpack_u8, lm_unpack_u16, lm_unpack_u32, lm_unpack_u64, lm_unpack_bool;
lm_unpack_fn lm_unpack_q4_0, lm_unpack_q4_1, lm_unpack_q5_0, lm_unpack_q5_1, lm_unpack_q8_0, lm_unpack_q8_1;
lm_unpack_fn lm_unpack_q2_k, lm_unpack_q3_k, lm_unpack_q4_k, lm_unpack_q5_k, lm_unpack_q6_k, lm_unpack_q8_k;
lm_unpack_fn lm_unpack_iq4_nl, lm_unpack_iq4_xs, lm_unpack_mxfp4, lm_unpack_nvfp4;
lm_unpack_fn lm_unpack_iq1_s, lm_unpack_iq1_m, lm_unpack_iq2_xxs, lm_unpack_iq2_xs, lm_unpack_iq2_s;
lm_unpack_fn lm_unpack_iq3_xxs, lm_unpack_iq3_s;
lm_unpack_fn lm_unpack_tq1_0, lm_unpack_tq2_0, lm_unpack_q1_0, lm_unpack_q2_0;

lm_pack_fn lm_pack_f32, lm_pack_f16, lm_pack_bf16, lm_pack_f64;
lm_pack_fn lm_pack_q4_0, lm_pack_q4_1, lm_pack_q5_0, lm_pack_q5_1, lm_pack_q8_0, lm_pack_q8_1;
lm_pack_fn lm_pack_q2_k, lm_pack_q3_k, lm_pack_q4_k, lm_pack_q5_k, lm_pack_q6_k, lm_pack_q8_k;
lm_pack_fn lm_quick_q2_k, lm_quick_q3_k, lm_quick_q4_k, lm_quick_q5_k, lm_quick_q6_k, lm_quick_iq4_nl,
    lm_quick_iq4_xs;
lm_pack_fn lm_pack_iq4_nl, lm_pack_iq4_xs, lm_pack_mxfp4, lm_pack_tq1_0, lm_pack_tq2_0;
lm_pack_fn lm_pack_iq1_s, lm_pack_iq1_m, lm_pack_iq2_xxs, lm_pack_iq2_xs, lm_pack_iq2_s, lm_pack_iq3_xxs,
    lm_pack_iq3_s;
lm_pack_fn lm_quick_iq1_s, lm_quick_iq1_m, lm_quick_iq2_xxs, lm_quick_iq2_xs, lm_quick_iq2_s,
    lm_quick_iq3_xxs, lm_quick_iq3_s;

#endif
