/* strip_types_avx512.h - the types that have strips, and how vectors of 512 bits read them. */
#ifndef LM_KERNELS_STRIP_TYPES_AVX512_H
#define LM_KERNELS_STRIP_TYPES_AVX512_H

#include "kernels/x86/avx512/tile_avx512.h"

/* id, suffix of names, kind of panel, codes, d, m, sign of m, offset, halves; in groups, each of which is
 * compiled separately: TYPES. */
#define STRIPS_PLAIN(X)                                                               \
    X(LM_Q4_0, q4_0, STRIPS_ONLY, c_nibbles, d_f16, m_none, NO_MINIMUM, 8, 1)         \
    X(LM_Q4_1, q4_1, STRIPS_ONLY, c_nibbles, d_f16, m_f16, PLUS, 0, 1)                \
    X(LM_Q5_0, q5_0, BYTES, c_nibbles_bit, d_f16, m_none, NO_MINIMUM, 16, 1)          \
    X(LM_Q5_1, q5_1, BYTES, c_nibbles_bit, d_f16, m_f16, PLUS, 0, 1)
#define STRIPS_TABLES(X)                                                              \
    X(LM_Q8_0, q8_0, STRIPS_ONLY, c_bytes, d_f16, m_none, NO_MINIMUM, 128, 1)         \
    X(LM_IQ4_NL, iq4_nl, STRIPS_ONLY, c_iq4, d_f16, m_none, NO_MINIMUM, 128, 1)       \
    X(LM_MXFP4, mxfp4, NUMBERS, c_fp4, d_exponent, m_none, NO_MINIMUM, 12, 1)
#define STRIPS_K(X)                                                                   \
    X(LM_Q4_K, q4_k, NUMBERS, c_nibbles, d_first, m_second, MINUS, 0, 1)              \
    X(LM_Q5_K, q5_k, BYTES, c_nibbles_bit, d_first, m_second, MINUS, 0, 1)            \
    X(LM_IQ4_XS, iq4_xs, NUMBERS, c_iq4, d_signed, m_none, NO_MINIMUM, 128, 1)
#define STRIPS_HALVES(X)                                                              \
    X(LM_Q2_K, q2_k, BYTES, c_pairs, d_low, m_high, MINUS, 0, 2)                      \
    X(LM_Q3_K, q3_k, BYTES, c_pairs_bit, d_signed_half, m_none, NO_MINIMUM, 4, 2)     \
    X(LM_Q6_K, q6_k, BYTES, c_nibbles_pair, d_signed_half, m_none, NO_MINIMUM, 32, 2)
#define STRIPS(X) STRIPS_PLAIN(X) STRIPS_TABLES(X) STRIPS_K(X) STRIPS_HALVES(X)

#define TRAITS(word, codes, d, m, sign, offset, halves) \
    ((traits){ codes, d, m, sign, offset, halves, LM_STRIP_SIZES(word) })

#endif
