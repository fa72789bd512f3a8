/* iquants.c - unpack the codebook types: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S.
 *
 * A block has 8 sub-blocks of 32 elements; a sub-block has 4 groups of 8. The width of the bit fields limits
 * indices from the file to the size of their grid. */
#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/codecs.h"
#include "tensor/dtype.h"

/* Return eight signs from the seven stored ones; the eighth makes their number even. */
static unsigned signs_of(unsigned seven)
{
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

/* Unpack eight elements: d * magnitude, negative where `signs` has a bit set. */
static void group2(float y[8], float d, uint16_t entry, unsigned signs)
{
    static const uint8_t alphabet[4] = { 8, 25, 43, 0 };
    for (unsigned e = 0; e < 8; e++)
        y[e] = d * (float)alphabet[entry >> 2 * e & 3] * (signs >> e & 1 ? -1.0f : 1.0f);
}

static void group3(float y[4], float d, uint16_t entry, const uint8_t alphabet[8], unsigned signs)
{
    for (unsigned e = 0; e < 4; e++)
        y[e] = d * (float)alphabet[entry >> 4 * e & 7] * (signs >> e & 1 ? -1.0f : 1.0f);
}

static void group1(float y[8], float d, uint16_t entry, float delta)
{
    for (unsigned e = 0; e < 8; e++)
        y[e] = d * ((float)(entry >> 2 * e & 3) - 1.0f + delta);
}

static void unpack_iq2_xxs(float *y, const lm_iq2_xxs *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned s = 0; s < 8; s++) {
        uint32_t word = b->sub[s].word;
        float ds = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (unsigned l = 0; l < 4; l++)
            group2(y + 32 * s + 8 * l, ds, lm_grid_iq2_xxs[b->sub[s].index[l]],
                   signs_of(word >> 7 * l & 127));
    }
}

/* IQ2_XS and IQ2_S: a four-bit scale per half of a sub-block. */
static float half_scale(float d, uint8_t scales, unsigned l)
{
    return d * (0.5f + (float)(l < 2 ? scales & 15 : scales >> 4)) * 0.25f;
}

static void unpack_iq2_xs(float *y, const lm_iq2_xs *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++)
        group2(y + 8 * i, half_scale(d, b->scales[i / 4], i % 4), lm_grid_iq2_xs[b->qs[i] & 511],
               signs_of(b->qs[i] >> 9));
}

static void unpack_iq2_s(float *y, const lm_iq2_s *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        unsigned s = i / 4, l = i % 4, index = b->qs[i] | ((unsigned)b->qh[s] << (8 - 2 * l) & 0x300);
        group2(y + 8 * i, half_scale(d, b->scales[s], l), lm_grid_iq2_s[index], b->signs[i]);
    }
}

static void unpack_iq3_xxs(float *y, const lm_iq3_xxs *b)
{
    static const uint8_t alphabet[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        uint32_t word = b->words[i / 4];
        float ds = d * (0.5f + (float)(word >> 28)) * 0.5f;
        unsigned signs = signs_of(word >> 7 * (i % 4) & 127);
        group3(y + 8 * i, ds, lm_grid_iq3_xxs[b->qs[2 * i]], alphabet, signs);
        group3(y + 8 * i + 4, ds, lm_grid_iq3_xxs[b->qs[2 * i + 1]], alphabet, signs >> 4);
    }
}

static void unpack_iq3_s(float *y, const lm_iq3_s *b)
{
    static const uint8_t alphabet[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        unsigned s = i / 4, l = i % 4, qh = b->qh[s];
        float ds = d * (float)(1 + 2 * (b->scales[s / 2] >> 4 * (s % 2) & 15));
        unsigned low = b->qs[2 * i] | (qh << (8 - 2 * l) & 256),
                 high = b->qs[2 * i + 1] | (qh << (7 - 2 * l) & 256);
        group3(y + 8 * i, ds, lm_grid_iq3_s[low], alphabet, b->signs[i]);
        group3(y + 8 * i + 4, ds, lm_grid_iq3_s[high], alphabet, b->signs[i] >> 4);
    }
}

static void unpack_iq1_s(float *y, const lm_iq1_s *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        unsigned qh = b->qh[i / 4], index = b->qs[i] | (qh >> 3 * (i % 4) & 7) << 8;
        group1(y + 8 * i, d * (float)(2 * (qh >> 12 & 7) + 1), lm_grid_iq1[index],
               qh & 0x8000 ? -0.125f : 0.125f);
    }
}

/* The block's scale is stored in the top nibbles of its four scale words. */
static void unpack_iq1_m(float *y, const lm_iq1_m *b)
{
    const uint16_t *sc = (const uint16_t[4]){ b->scales[0], b->scales[1], b->scales[2], b->scales[3] };
    float d = lm_f16_to_f32(
        (uint16_t)(sc[0] >> 12 | (sc[1] >> 8 & 0xf0) | (sc[2] >> 4 & 0xf00) | (sc[3] & 0xf000)));

    for (unsigned i = 0; i < 32; i++) {
        unsigned s = i / 4, l = i % 4, h = b->qh[i / 2];
        unsigned scale = (unsigned)sc[s / 2] >> (6 * (s % 2) + 3 * (l / 2)) & 7;
        unsigned index = b->qs[i] | (h << (8 - 4 * (l % 2)) & 0x700);
        group1(y + 8 * i, d * (float)(2 * scale + 1), lm_grid_iq1[index],
               h & (l % 2 ? 0x80 : 0x08) ? -0.125f : 0.125f);
    }
}

LM_UNPACK_ROWS(iq2_xxs, LM_K_BLOCK)
LM_UNPACK_ROWS(iq2_xs, LM_K_BLOCK)
LM_UNPACK_ROWS(iq2_s, LM_K_BLOCK)
LM_UNPACK_ROWS(iq3_xxs, LM_K_BLOCK)
LM_UNPACK_ROWS(iq3_s, LM_K_BLOCK)
LM_UNPACK_ROWS(iq1_s, LM_K_BLOCK)
LM_UNPACK_ROWS(iq1_m, LM_K_BLOCK)
