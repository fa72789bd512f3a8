/* smallbits.c - unpack the types below five bits without codebooks: IQ4_NL IQ4_XS (a table of 16 values),
 * MXFP4 NVFP4 (four-bit floats), TQ1_0 TQ2_0 (ternary), Q1_0 Q2_0. */
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/dtype.h"

const int8_t lm_iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
const int8_t lm_e2m1_values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void table_nibbles(float *y, const uint8_t qs[16], const int8_t table[16], float d)
{
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)table[qs[i] & 15];
        y[i + 16] = d * (float)table[qs[i] >> 4];
    }
}

static void unpack_iq4_nl(float *y, const lm_iq4_nl *b)
{
    table_nibbles(y, b->qs, lm_iq4_values, lm_f16_to_f32(b->d));
}

static void unpack_iq4_xs(float *y, const lm_iq4_xs *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned s = 0; s < 8; s++) {
        int scale = (b->scales_l[s / 2] >> 4 * (s % 2) & 15) | (b->scales_h >> 2 * s & 3) << 4;
        table_nibbles(y + 32 * s, b->qs + 16 * s, lm_iq4_values, d * (float)(scale - 32));
    }
}

float lm_e8m0_half(uint8_t e)
{
    uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;      /* below 2^-126: denormals */
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void unpack_mxfp4(float *y, const lm_mxfp4 *b)
{
    table_nibbles(y, b->qs, lm_e2m1_values, lm_e8m0_half(b->e));
}

/* Return an unsigned E4M3 scale, halved because the value table is doubled. 0x7f means 0, not NaN. */
static float ue4m3_half(uint8_t d)
{
    unsigned exponent = d >> 3 & 15, mantissa = d & 7;

    if (d == 0x7f)
        return 0.0f;
    if (exponent == 0)
        return (float)mantissa * 0x1p-10f;
    return (float)((8 + mantissa) << exponent) * 0x1p-11f;
}

static void unpack_nvfp4(float *y, const lm_nvfp4 *b)
{
    for (int k = 0; k < 4; k++) {
        float d = ue4m3_half(b->d[k]);
        for (int i = 0; i < 8; i++) {
            y[16 * k + i] = d * (float)lm_e2m1_values[b->qs[8 * k + i] & 15];
            y[16 * k + i + 8] = d * (float)lm_e2m1_values[b->qs[8 * k + i] >> 4];
        }
    }
}

/* Five base-3 digits share a byte as the fraction byte/256: multiplying by 3^k brings digit k to the
 * front. */
static int trit(uint8_t byte, unsigned k)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    return (uint8_t)(byte * power[k]) * 3 >> 8;
}

static void unpack_tq1_0(float *y, const lm_tq1_0 *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 160; i++)
        y[i] = d * (float)(trit(b->qs[i % 32], i / 32) - 1);
    for (unsigned i = 0; i < 80; i++)
        y[160 + i] = d * (float)(trit(b->qs[32 + i % 16], i / 16) - 1);
    for (unsigned i = 0; i < 16; i++)
        y[240 + i] = d * (float)(trit(b->qh[i % 4], i / 4) - 1);
}

static void unpack_tq2_0(float *y, const lm_tq2_0 *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < LM_K_BLOCK; i++)
        y[i] = d * (float)((b->qs[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3) - 1);
}

static void unpack_q1_0(float *y, const lm_q1_0 *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 128; i++)
        y[i] = b->qs[i / 8] >> i % 8 & 1 ? d : -d;
}

static void unpack_q2_0(float *y, const lm_q2_0 *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 64; i++)
        y[i] = d * (float)((b->qs[i / 4] >> 2 * (i % 4) & 3) - 1);
}

LM_UNPACK_ROWS(iq4_nl, 32)
LM_UNPACK_ROWS(iq4_xs, LM_K_BLOCK)
LM_UNPACK_ROWS(mxfp4, 32)
LM_UNPACK_ROWS(nvfp4, 64)
LM_UNPACK_ROWS(tq1_0, LM_K_BLOCK)
LM_UNPACK_ROWS(tq2_0, LM_K_BLOCK)
LM_UNPACK_ROWS(q1_0, 128)
LM_UNPACK_ROWS(q2_0, 64)
