/* blocks.h - the memory layout of quantised blocks, byte for byte (GGUF; all little-endian).
 *
 * The structs are packed, so a pointer to one needs no alignment. `f16` fields are bit patterns. A nibble
 * pair holds element i of the first half in its low bits and element i of the second half in its high
 * bits. */
#ifndef LM_TENSOR_BLOCKS_H
#define LM_TENSOR_BLOCKS_H

#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian and read in place");

#define LM_PACKED_STRUCT __attribute__((packed))

enum { LM_K_BLOCK = 256 };           /* elements of every K, IQ and ternary block */

/* Blocks of 32 with one scale: x = d*(q - zero) or d*q + m. */
typedef struct LM_PACKED_STRUCT lm_q4_0 { uint16_t d; uint8_t qs[16]; } lm_q4_0;
typedef struct LM_PACKED_STRUCT lm_q4_1 { uint16_t d, m; uint8_t qs[16]; } lm_q4_1;
typedef struct LM_PACKED_STRUCT lm_q5_0 { uint16_t d; uint32_t qh; uint8_t qs[16]; } lm_q5_0;
typedef struct LM_PACKED_STRUCT lm_q5_1 { uint16_t d, m; uint32_t qh; uint8_t qs[16]; } lm_q5_1;
typedef struct LM_PACKED_STRUCT lm_q8_0 { uint16_t d; int8_t qs[32]; } lm_q8_0;
typedef struct LM_PACKED_STRUCT lm_q8_1 { uint16_t d, s; int8_t qs[32]; } lm_q8_1; /* s = d * sum of qs */

/* Super-blocks of 256 with quantised scales. */
typedef struct LM_PACKED_STRUCT lm_q2_k { uint8_t scales[16], qs[64]; uint16_t d, dmin; } lm_q2_k;
typedef struct LM_PACKED_STRUCT lm_q3_k { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; } lm_q3_k;
typedef struct LM_PACKED_STRUCT lm_q4_k { uint16_t d, dmin; uint8_t scales[12], qs[128]; } lm_q4_k;
typedef struct LM_PACKED_STRUCT lm_q5_k { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; } lm_q5_k;
typedef struct LM_PACKED_STRUCT lm_q6_k { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; } lm_q6_k;
typedef struct LM_PACKED_STRUCT lm_q8_k { float d; int8_t qs[256]; int16_t bsums[16]; } lm_q8_k;

/* Codes that index a non-linear table of 16 values. */
typedef struct LM_PACKED_STRUCT lm_iq4_nl { uint16_t d; uint8_t qs[16]; } lm_iq4_nl;
typedef struct LM_PACKED_STRUCT lm_iq4_xs { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; } lm_iq4_xs;

/* Codebooks: a group of 8 or 4 elements is an index into a grid and a sign mask. */
typedef struct LM_PACKED_STRUCT lm_iq2_xxs {
    uint16_t d;
    struct LM_PACKED_STRUCT {
        uint8_t index[4];
        uint32_t word;
    } sub[8];
} lm_iq2_xxs;
typedef struct LM_PACKED_STRUCT lm_iq2_xs { uint16_t d, qs[32]; uint8_t scales[8]; } lm_iq2_xs;
typedef struct LM_PACKED_STRUCT lm_iq2_s {
    uint16_t d;
    uint8_t qs[32], signs[32], qh[8], scales[8];
} lm_iq2_s;
typedef struct LM_PACKED_STRUCT lm_iq3_xxs { uint16_t d; uint8_t qs[64]; uint32_t words[8]; } lm_iq3_xxs;
typedef struct LM_PACKED_STRUCT lm_iq3_s {
    uint16_t d;
    uint8_t qs[64], qh[8], signs[32], scales[4];
} lm_iq3_s;
typedef struct LM_PACKED_STRUCT lm_iq1_s { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } lm_iq1_s;
typedef struct LM_PACKED_STRUCT lm_iq1_m { uint8_t qs[32], qh[16]; uint16_t scales[4]; } lm_iq1_m;

/* One, two and 1.6 bits. */
typedef struct LM_PACKED_STRUCT lm_tq1_0 { uint8_t qs[48], qh[4]; uint16_t d; } lm_tq1_0;
typedef struct LM_PACKED_STRUCT lm_tq2_0 { uint8_t qs[64]; uint16_t d; } lm_tq2_0;
typedef struct LM_PACKED_STRUCT lm_q1_0 { uint16_t d; uint8_t qs[16]; } lm_q1_0;     /* 128 elements */
typedef struct LM_PACKED_STRUCT lm_q2_0 { uint16_t d; uint8_t qs[16]; } lm_q2_0;     /* 64 elements */

/* Four-bit floats: E2M1 values with an E8M0 scale (per 32 elements) or UE4M3 scales (per 16 elements). */
typedef struct LM_PACKED_STRUCT lm_mxfp4 { uint8_t e, qs[16]; } lm_mxfp4;
typedef struct LM_PACKED_STRUCT lm_nvfp4 { uint8_t d[4], qs[32]; } lm_nvfp4;

/* The values of IQ4_NL and IQ4_XS, and twice the E2M1 values. */
extern const int8_t lm_iq4_values[16];
extern const int8_t lm_e2m1_values[16];

/* Return the scale 2^(e-128) of an MXFP4 block (128 and not 127 because the table above is doubled). */
float lm_e8m0_half(uint8_t e);

/* Read the 6-bit scale and minimum of sub-block s (0..7) of Q4_K and Q5_K: eight of each in 12 bytes. */
static inline void lm_k4_scale_min(const uint8_t a[12], unsigned s, uint8_t *scale, uint8_t *min)
{
    if (s < 4) {
        *scale = a[s] & 63;
        *min = a[s + 4] & 63;
    } else {
        *scale = (uint8_t)((a[s + 4] & 15) | (a[s - 4] >> 6) << 4);
        *min = (uint8_t)((a[s + 4] >> 4) | (a[s] >> 6) << 4);
    }
}

/* Return the scale (-32..31) of sub-block s (0..15) of Q3_K: sixteen 6-bit numbers in 12 bytes. */
static inline int lm_k3_scale(const uint8_t a[12], unsigned s)
{
    unsigned low = s < 8 ? a[s] & 15u : a[s - 8] >> 4u;
    unsigned high = (unsigned)a[8 + s % 4] >> (2 * (s / 4)) & 3u;
    return (int)(low | high << 4) - 32;
}

#endif
