/* kquants.c - unpack super-blocks of 256: Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K.
 *
 * Element i = 128*n + 32*j + l of the two- and three-bit types is in byte 32*n + l, bits 2*j and 2*j + 1. */
#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/dtype.h"

static void unpack_q2_k(float *y, const lm_q2_k *b)
{
    float d = lm_f16_to_f32(b->d), dmin = lm_f16_to_f32(b->dmin);

    for (unsigned i = 0; i < LM_K_BLOCK; i++) {
        unsigned n = i / 128, j = i % 128 / 32, l = i % 32, s = b->scales[i / 16];
        float dl = d * (float)(s & 15), ml = dmin * (float)(s >> 4);
        y[i] = dl * (float)((unsigned)b->qs[32 * n + l] >> 2 * j & 3) - ml;
    }
}

static void unpack_q3_k(float *y, const lm_q3_k *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < LM_K_BLOCK; i++) {
        unsigned n = i / 128, j = i % 128 / 32, l = i % 32;
        int q = (b->qs[32 * n + l] >> 2 * j & 3) - (b->hmask[l] >> (4 * n + j) & 1 ? 0 : 4);
        y[i] = d * (float)lm_k3_scale(b->scales, i / 16) * (float)q;
    }
}

/* Sub-blocks 2k and 2k+1 are the low and high nibbles of the same 32 bytes. */
static void unpack_q4_k(float *y, const lm_q4_k *b)
{
    float d = lm_f16_to_f32(b->d), dmin = lm_f16_to_f32(b->dmin);

    for (unsigned s = 0; s < 8; s++) {
        uint8_t scale, min;
        lm_k4_scale_min(b->scales, s, &scale, &min);
        float dl = d * (float)scale, ml = dmin * (float)min;
        for (unsigned l = 0; l < 32; l++)
            y[32 * s + l] = dl * (float)(b->qs[32 * (s / 2) + l] >> 4 * (s % 2) & 15) - ml;
    }
}

static void unpack_q5_k(float *y, const lm_q5_k *b)
{
    float d = lm_f16_to_f32(b->d), dmin = lm_f16_to_f32(b->dmin);

    for (unsigned s = 0; s < 8; s++) {
        uint8_t scale, min;
        lm_k4_scale_min(b->scales, s, &scale, &min);
        float dl = d * (float)scale, ml = dmin * (float)min;
        for (unsigned l = 0; l < 32; l++) {
            int q = (b->qs[32 * (s / 2) + l] >> 4 * (s % 2) & 15) | (b->qh[l] >> s & 1) << 4;
            y[32 * s + l] = dl * (float)q - ml;
        }
    }
}

static void unpack_q6_k(float *y, const lm_q6_k *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < LM_K_BLOCK; i++) {
        unsigned n = i / 128, j = i % 128 / 32, l = i % 32;
        int low = b->ql[64 * n + l + 32 * (j & 1)] >> (j < 2 ? 0 : 4) & 15;
        int high = b->qh[32 * n + l] >> 2 * j & 3;
        y[i] = d * (float)b->scales[i / 16] * (float)((low | high << 4) - 32);
    }
}

static void unpack_q8_k(float *y, const lm_q8_k *b)
{
    for (unsigned i = 0; i < LM_K_BLOCK; i++)
        y[i] = b->d * (float)b->qs[i];
}

LM_UNPACK_ROWS(q2_k, LM_K_BLOCK)
LM_UNPACK_ROWS(q3_k, LM_K_BLOCK)
LM_UNPACK_ROWS(q4_k, LM_K_BLOCK)
LM_UNPACK_ROWS(q5_k, LM_K_BLOCK)
LM_UNPACK_ROWS(q6_k, LM_K_BLOCK)
LM_UNPACK_ROWS(q8_k, LM_K_BLOCK)
