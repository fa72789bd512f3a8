/* codes.h - blocks as unpacked integers: the decisions of a quantiser, independent of the layout of bits. */
#ifndef LM_TENSOR_CODES_H
#define LM_TENSOR_CODES_H

#include "tensor/blocks.h"

/* x = d * scale * q - dmin * min: Q2_K (sub-blocks of 16, scales to 15), Q4_K, Q5_K (of 32, to 63). d, dmin:
 * f16. */
typedef struct lm_affine_codes {
    uint16_t d, dmin;
    uint8_t  scale[16], min[16], q[LM_K_BLOCK];
} lm_affine_codes;

/* x = d * scale * (q - zero): Q3_K (zero 4, scales -32 to 31), Q6_K (32, -128 to 127); sub-blocks of 16. */
typedef struct lm_symmetric_codes {
    uint16_t d;
    int8_t   scale[16];
    uint8_t  q[LM_K_BLOCK];
} lm_symmetric_codes;

void lm_store_q2_k(lm_q2_k *b, const lm_affine_codes *c);
void lm_store_q4_k(lm_q4_k *b, const lm_affine_codes *c);
void lm_store_q5_k(lm_q5_k *b, const lm_affine_codes *c);
void lm_store_q3_k(lm_q3_k *b, const lm_symmetric_codes *c);
void lm_store_q6_k(lm_q6_k *b, const lm_symmetric_codes *c);

/* Store the first 16 elements in the low bits of the bytes, the others in the high bits. */
static inline void lm_store_halves(uint8_t qs[16], const uint8_t q[32])
{
    for (int i = 0; i < 16; i++)
        qs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

/* Return the fifth bits of 32 elements. */
static inline uint32_t lm_fifth_bits(const uint8_t q[32])
{
    uint32_t qh = 0;

    for (int i = 0; i < 32; i++)
        qh |= (uint32_t)(q[i] >> 4 & 1) << i;
    return qh;
}

#endif
