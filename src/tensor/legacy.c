/* legacy.c - blocks of 32 with one scale: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1.
 *
 * The pack functions are bit-identical to the formats' reference quantiser, so files from both are the
 * same. */
#include <math.h>

#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/codes.h"
#include "tensor/dtype.h"

static void unpack_q4_0(float *y, const lm_q4_0 *b)
{
    float d = lm_f16_to_f32(b->d);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)((b->qs[i] & 15) - 8);
        y[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
    }
}

static void unpack_q4_1(float *y, const lm_q4_1 *b)
{
    float d = lm_f16_to_f32(b->d), m = lm_f16_to_f32(b->m);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)(b->qs[i] & 15) + m;
        y[i + 16] = d * (float)(b->qs[i] >> 4) + m;
    }
}

/* Return element i of a five-bit block: a nibble and one bit of qh. */
static int q5(const uint8_t qs[16], uint32_t qh, int i)
{
    int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    return low | (int)(qh >> i & 1u) << 4;
}

static void unpack_q5_0(float *y, const lm_q5_0 *b)
{
    float d = lm_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)(q5(b->qs, b->qh, i) - 16);
}

static void unpack_q5_1(float *y, const lm_q5_1 *b)
{
    float d = lm_f16_to_f32(b->d), m = lm_f16_to_f32(b->m);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)q5(b->qs, b->qh, i) + m;
}

static void unpack_q8_0(float *y, const lm_q8_0 *b)
{
    float d = lm_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)b->qs[i];
}

static void unpack_q8_1(float *y, const lm_q8_1 *b)
{
    float d = lm_f16_to_f32(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)b->qs[i];
}

/* Return the element of largest magnitude, with its sign; of equal ones, the first. */
static float extreme(const float *x)
{
    float magnitude = 0.0f, value = 0.0f;
    for (int i = 0; i < 32; i++) {
        if (fabsf(x[i]) > magnitude) {
            magnitude = fabsf(x[i]);
            value = x[i];
        }
    }
    return value;
}

static void range(const float *x, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < *min)
            *min = x[i];
        if (x[i] > *max)
            *max = x[i];
    }
}

static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* The extreme element maps to the longer end of the range (-8 of -8..7). */
static void pack_q4_0(lm_q4_0 *b, const float *x)
{
    float d = extreme(x) / -8.0f, id = inverse(d);
    uint8_t q[32];

    b->d = lm_f32_to_f16(d);
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)lm_truncate(x[i] * id + 8.5f, 0, 15);
    lm_store_halves(b->qs, q);
}

static void pack_q5_0(lm_q5_0 *b, const float *x)
{
    float d = extreme(x) / -16.0f, id = inverse(d);
    uint8_t q[32];

    b->d = lm_f32_to_f16(d);
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)lm_truncate(x[i] * id + 16.5f, 0, 31);
    lm_store_halves(b->qs, q);
    b->qh = lm_fifth_bits(q);
}

static void pack_q4_1(lm_q4_1 *b, const float *x)
{
    float min, max;
    uint8_t q[32];

    range(x, &min, &max);
    float d = (max - min) / 15.0f, id = inverse(d);
    b->d = lm_f32_to_f16(d);
    b->m = lm_f32_to_f16(min);
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)lm_truncate((x[i] - min) * id + 0.5f, 0, 15);
    lm_store_halves(b->qs, q);
}

static void pack_q5_1(lm_q5_1 *b, const float *x)
{
    float min, max;
    uint8_t q[32];

    range(x, &min, &max);
    float d = (max - min) / 31.0f, id = inverse(d);
    b->d = lm_f32_to_f16(d);
    b->m = lm_f32_to_f16(min);
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)lm_truncate((x[i] - min) * id + 0.5f, 0, 31);
    lm_store_halves(b->qs, q);
    b->qh = lm_fifth_bits(q);
}

/* Pack 32 elements to bytes and return the sum of the integers. Ties round away from zero here, like C's
 * roundf. */
static int pack_bytes(int8_t qs[32], const float *x, float d)
{
    float id = inverse(d);
    int sum = 0;

    for (int i = 0; i < 32; i++) {
        qs[i] = (int8_t)lm_truncate(roundf(x[i] * id), -127, 127);
        sum += qs[i];
    }
    return sum;
}

static void pack_q8_0(lm_q8_0 *b, const float *x)
{
    float d = fabsf(extreme(x)) / 127.0f;

    b->d = lm_f32_to_f16(d);
    pack_bytes(b->qs, x, d);
}

static void pack_q8_1(lm_q8_1 *b, const float *x)
{
    float d = fabsf(extreme(x)) / 127.0f;

    b->d = lm_f32_to_f16(d);
    b->s = lm_f32_to_f16((float)pack_bytes(b->qs, x, d) * d);
}

LM_UNPACK_ROWS(q4_0, 32)
LM_UNPACK_ROWS(q4_1, 32)
LM_UNPACK_ROWS(q5_0, 32)
LM_UNPACK_ROWS(q5_1, 32)
LM_UNPACK_ROWS(q8_0, 32)
LM_UNPACK_ROWS(q8_1, 32)
LM_PACK_ROWS(q4_0, 32)
LM_PACK_ROWS(q4_1, 32)
LM_PACK_ROWS(q5_0, 32)
LM_PACK_ROWS(q5_1, 32)
LM_PACK_ROWS(q8_0, 32)
LM_PACK_ROWS(q8_1, 32)
