/* smallbits_pack.c - pack IQ4_NL, IQ4_XS, MXFP4, TQ1_0 and TQ2_0. */
#include <math.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/dtype.h"
#include "tensor/fit.h"

static void table_nibbles(uint8_t qs[16], const float *x, const int8_t table[16], float d)
{
    float id = lm_inverse(d);
    for (int i = 0; i < 16; i++) {
        int low = lm_nearest_in_table(table, x[i] * id), high = lm_nearest_in_table(table, x[i + 16] * id);
        qs[i]   = (uint8_t)(low | high << 4);
    }
}

static float finite_f16(float d, uint16_t *bits)
{
    if (!(fabsf(d) <= 65504.0f))
        d = isnan(d) ? 0.0f : copysignf(65504.0f, d);
    *bits = lm_f32_to_f16(d);
    return lm_f16_to_f32(*bits);
}

/* Return the scale that maps the element of largest magnitude to the first value of the table. */
static float reach(const float *x)
{
    float extreme = 0.0f;

    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme / (float)lm_iq4_values[0];
}

static void write_iq4_nl(lm_iq4_nl *b, const float *x, bool quick)
{
    uint16_t bits;
    float d = finite_f16(quick ? reach(x) : lm_fit_table(x, 32, lm_iq4_values), &bits);

    b->d = bits;
    table_nibbles(b->qs, x, lm_iq4_values, d);
}

static int choose_scale(const float *x, float d, float scale, bool quick)
{
    int near = lm_nearest(scale * lm_inverse(d), -32, 31), best = near;
    float min = INFINITY;

    for (int i = near > -32 ? near - 1 : near; i <= near + 1 && i <= 31 && !quick; i++) {
        float error = lm_error_table(x, 32, lm_iq4_values, d * (float)i);
        if (error < min) {
            min = error;
            best = i;
        }
    }
    return best;
}

static void write_iq4_xs(lm_iq4_xs *b, const float *x, bool quick)
{
    float scale[8], largest = 0.0f;
    uint16_t bits, high = 0;

    for (int s = 0; s < 8; s++) {
        scale[s] = quick ? reach(x + 32 * s) : lm_fit_table(x + 32 * s, 32, lm_iq4_values);
        if (fabsf(scale[s]) > fabsf(largest))
            largest = scale[s];
    }
    float d = finite_f16(largest / -32.0f, &bits);
    memset(b, 0, sizeof *b);
    b->d = bits;
    for (int s = 0; s < 8; s++) {
        int ls = choose_scale(x + 32 * s, d, scale[s], quick), stored = ls + 32;
        b->scales_l[s / 2] |= (uint8_t)((stored & 15) << 4 * (s % 2));
        high = (uint16_t)(high | stored >> 4 << 2 * s);
        table_nibbles(b->qs + 16 * s, x + 32 * s, lm_iq4_values, d * (float)ls);
    }
    b->scales_h = high;
}

/* Return the code of the E2M1 value nearest to x, in units of half a step: 0 1 2 3 4 6 8 12, with a sign. */
static int e2m1(float x)
{
    static const float middles[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f };
    int q = 0;

    while (q < 7 && fabsf(x) > middles[q])
        q++;
    return x < 0.0f ? q | 8 : q;
}

static float mxfp4_error(const float *x, uint8_t e)
{
    float d = lm_e8m0_half(e), id = 1.0f / d, sum = 0.0f;

    for (int i = 0; i < 32; i++) {
        float error = x[i] - d * (float)lm_e2m1_values[e2m1(x[i] * id)];
        sum += error * error;
    }
    return sum;
}

/* Use the scale, a power of two, that just avoids clipping, or the one below it, whichever has the smaller
 * error. */
static void pack_mxfp4(lm_mxfp4 *b, const float *x)
{
    float max = 0.0f;
    int exponent = 0;

    for (int i = 0; i < 32; i++)
        max = fmaxf(max, fabsf(x[i]));
    if (max > 0.0f && max <= 3.4e38f) {
        frexpf(max, &exponent);                      /* most in [2^(exponent-1), 2^exponent) */
        exponent = exponent - 3 + 127;               /* 4..8 steps of 2^(e-127) */
        exponent = exponent < 0 ? 0 : exponent > 253 ? 253 : exponent;
        if (mxfp4_error(x, (uint8_t)(exponent + 1)) < mxfp4_error(x, (uint8_t)exponent))
            exponent++;
    }
    b->e = (uint8_t)exponent;
    float id = 1.0f / lm_e8m0_half(b->e);
    for (int i = 0; i < 16; i++)
        b->qs[i] = (uint8_t)(e2m1(x[i] * id) | e2m1(x[i + 16] * id) << 4);
}

/* ---- ternary: the scale is the largest magnitude, so numbers below half of it become zero ---- */

static float ternary_scale(const float *x, uint16_t *bits)
{
    float max = 0.0f;

    for (int i = 0; i < LM_K_BLOCK; i++)
        max = fmaxf(max, fabsf(x[i]));
    finite_f16(max, bits);
    return lm_inverse(max);
}

/* Return 0, 1 or 2 for -1, 0 or 1. Halves are rounded away from zero, as in llama.cpp. */
static unsigned trit(float x)
{
    return x <= -0.5f ? 0 : x >= 0.5f ? 2 : 1;
}

/* Pack n digits `stride` elements apart, the first one the most significant of five, as the fraction byte/256
 * rounded up. */
static uint8_t trits(const float *x, unsigned n, unsigned stride, float id)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < 5; i++)
        sum = 3 * sum + (i < n ? trit(x[i * stride] * id) : 0);
    return (uint8_t)((sum * 256 + 242) / 243);
}

static void pack_tq1_0(lm_tq1_0 *b, const float *x)
{
    uint16_t bits;
    float    id = ternary_scale(x, &bits);

    b->d = bits;
    for (unsigned i = 0; i < 32; i++)
        b->qs[i] = trits(x + i, 5, 32, id);
    for (unsigned i = 0; i < 16; i++)
        b->qs[32 + i] = trits(x + 160 + i, 5, 16, id);
    for (unsigned i = 0; i < 4; i++)
        b->qh[i] = trits(x + 240 + i, 4, 4, id);
}

static void pack_tq2_0(lm_tq2_0 *b, const float *x)
{
    uint16_t bits;
    float    id = ternary_scale(x, &bits);

    b->d = bits;
    for (unsigned i = 0; i < 64; i++) {
        unsigned byte = 0;
        for (unsigned k = 0; k < 4; k++)
            byte |= trit(x[128 * (i / 32) + 32 * k + i % 32] * id) << 2 * k;
        b->qs[i] = (uint8_t)byte;
    }
}

LM_WRITE_ROWS(iq4_nl, 32)
LM_WRITE_ROWS(iq4_xs, LM_K_BLOCK)
LM_PACK_ROWS(mxfp4, 32)
LM_PACK_ROWS(tq1_0, LM_K_BLOCK)
LM_PACK_ROWS(tq2_0, LM_K_BLOCK)
