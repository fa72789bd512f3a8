/* byte_strips.c - unpack small types to bytes, eight codes at a time in one 64-bit word, a code per byte.
 *
 * No operation carries from a byte into the next: sums stay below 256, and differences do not fall below
 * 0. */
#include "kernels/byte_strips.h"

#include <string.h>

#include "kernels/levels.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"

#define EACH UINT64_C(0x0101010101010101)
#define LOWEST UINT64_C(15)                      /* -1 of the small types that have no signs */

/* The destination of a row's codes and scales. */
typedef struct place {
    uint8_t *strip;
    uint32_t row;
} place;

/* Store columns 8 i … 8 i + 7 of the row in two vectors of their unit. */
static void put8(place p, uint64_t i, uint64_t codes)
{
    uint8_t *at = p.strip + i / 4 * LM_BYTE_UNIT + LM_BYTE_NUMBERS + 128 * (i % 4) + 4 * p.row;

    memcpy(at, &codes, 4);
    memcpy(at + 64, (const uint8_t *)&codes + 4, 4);
}

/* Store the scale of columns 16 i … 16 i + 15. */
static void put_d(place p, uint64_t i, float d)
{
    memcpy(p.strip + i / 2 * LM_BYTE_UNIT + 64 * (i % 2) + 4 * p.row, &d, 4);
}

/* Spread eight fields of two bits to bytes. */
static uint64_t spread2(uint64_t x)
{
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    return (x | x << 6) & UINT64_C(0x0303030303030303);
}

/* Spread two entries of four nibbles to bytes. */
static uint64_t spread4(uint32_t low, uint32_t high)
{
    uint64_t x = (low | (uint64_t)high << 32) & UINT64_C(0x0000ffff0000ffff);

    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    return (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
}

/* Spread eight bits to bytes 0 or 1. */
static uint64_t spread1(uint64_t bits)
{
    uint64_t x = (bits * EACH) & UINT64_C(0x8040201008040201);

    return ((x | ((x & 127 * EACH) + 127 * EACH)) >> 7) & EACH;
}

/* Return offset + v, or offset - v where the byte of `signs` is 1. */
static uint64_t signed_bytes(uint64_t v, uint64_t signs, unsigned offset)
{
    return (v ^ signs * 127) + (64 * EACH - signs * 127) - (64 - offset) * EACH;
}

static uint64_t with_signs(uint64_t v, unsigned signs, unsigned offset)
{
    return signed_bytes(v, spread1(signs), offset);
}

/* Return eight signs from the seven stored ones; the eighth makes their number even. */
static unsigned signs_of(unsigned seven)
{
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

/* Digits select from {8, 25, 43}. */
static uint64_t codes2(uint16_t entry, unsigned signs)
{
    uint64_t x = spread2(entry);

    return with_signs(8 * EACH + 17 * (x & EACH) + 35 * (x >> 1 & EACH), signs, LM_OFFSET_wide);
}

/* Eight times {-1, 0, 1}, plus one, or minus one if `less`. */
static uint64_t codes1(uint16_t entry, bool less)
{
    return 8 * spread2(entry) + (uint64_t)(LM_OFFSET_small - (less ? 9 : 7)) * EACH;
}

/* ---- blocks of 256
 * ----------------------------------------------------------------------------------------------- */

static void put_iq2_xxs(place p, uint64_t k, const lm_iq2_xxs *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned s = 0; s < 8; s++) {
        uint32_t word = b->sub[s].word;
        float ds = d * (0.5f + (float)(word >> 28)) * 0.25f;
        put_d(p, 16 * k + 2 * s, ds);
        put_d(p, 16 * k + 2 * s + 1, ds);
        for (unsigned l = 0; l < 4; l++)
            put8(p, 32 * k + 4 * s + l,
                 codes2(lm_grid_iq2_xxs[b->sub[s].index[l]], signs_of(word >> 7 * l & 127)));
    }
}

/* A four-bit scale per half of a sub-block. */
static void put_half_scales(place p, uint64_t k, float d, const uint8_t scales[8])
{
    for (unsigned s = 0; s < 8; s++) {
        put_d(p, 16 * k + 2 * s, d * (0.5f + (float)(scales[s] & 15)) * 0.25f);
        put_d(p, 16 * k + 2 * s + 1, d * (0.5f + (float)(scales[s] >> 4)) * 0.25f);
    }
}

static void put_iq2_xs(place p, uint64_t k, const lm_iq2_xs *b)
{
    put_half_scales(p, k, lm_f16_to_f32(b->d), b->scales);
    for (unsigned i = 0; i < 32; i++)
        put8(p, 32 * k + i, codes2(lm_grid_iq2_xs[b->qs[i] & 511], signs_of(b->qs[i] >> 9)));
}

static void put_iq2_s(place p, uint64_t k, const lm_iq2_s *b)
{
    put_half_scales(p, k, lm_f16_to_f32(b->d), b->scales);
    for (unsigned i = 0; i < 32; i++) {
        unsigned index = b->qs[i] | ((unsigned)b->qh[i / 4] << (8 - 2 * (i % 4)) & 0x300);
        put8(p, 32 * k + i, codes2(lm_grid_iq2_s[index], b->signs[i]));
    }
}

/* Digits select from {4, 12, 20, 28, 36, 44, 52, 62}. */
static void put_iq3_xxs(place p, uint64_t k, const lm_iq3_xxs *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        uint32_t word = b->words[i / 4];
        uint64_t x = spread4(lm_grid_iq3_xxs[b->qs[2 * i]], lm_grid_iq3_xxs[b->qs[2 * i + 1]]) & 7 * EACH;
        if (i % 2 == 0)
            put_d(p, 16 * k + i / 2, d * (0.5f + (float)(word >> 28)) * 0.5f);
        put8(p, 32 * k + i,
             with_signs(4 * EACH + 8 * x + 2 * (x & x >> 1 & x >> 2 & EACH),
                        signs_of(word >> 7 * (i % 4) & 127), LM_OFFSET_wide));
    }
}

/* Digits select odd numbers. */
static void put_iq3_s(place p, uint64_t k, const lm_iq3_s *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        unsigned s = i / 4, l = i % 4, qh = b->qh[s];
        unsigned low = b->qs[2 * i] | (qh << (8 - 2 * l) & 256),
                 high = b->qs[2 * i + 1] | (qh << (7 - 2 * l) & 256);
        uint64_t x = spread4(lm_grid_iq3_s[low], lm_grid_iq3_s[high]) & 7 * EACH;
        if (i % 2 == 0)
            put_d(p, 16 * k + i / 2, d * (float)(1 + 2 * (b->scales[s / 2] >> 4 * (s % 2) & 15)));
        put8(p, 32 * k + i, with_signs(EACH + 2 * x, b->signs[i], LM_OFFSET_small));
    }
}

static void put_iq1_s(place p, uint64_t k, const lm_iq1_s *b)
{
    float d = lm_f16_to_f32(b->d);

    for (unsigned i = 0; i < 32; i++) {
        unsigned qh = b->qh[i / 4], index = b->qs[i] | (qh >> 3 * (i % 4) & 7) << 8;
        if (i % 2 == 0)
            put_d(p, 16 * k + i / 2, d * (float)(2 * (qh >> 12 & 7) + 1) * 0.125f);
        put8(p, 32 * k + i, codes1(lm_grid_iq1[index], qh & 0x8000));
    }
}

/* The block's scale is stored in the top nibbles of its four scale words. */
static void put_iq1_m(place p, uint64_t k, const lm_iq1_m *b)
{
    unsigned sc[4] = { b->scales[0], b->scales[1], b->scales[2], b->scales[3] };
    float d = lm_f16_to_f32(
        (uint16_t)(sc[0] >> 12 | (sc[1] >> 8 & 0xf0) | (sc[2] >> 4 & 0xf00) | (sc[3] & 0xf000)));

    for (unsigned i = 0; i < 32; i++) {
        unsigned s = i / 4, l = i % 4, h = b->qh[i / 2];
        unsigned scale = sc[s / 2] >> (6 * (s % 2) + 3 * (l / 2)) & 7,
                 index = b->qs[i] | (h << (8 - 4 * (l % 2)) & 0x700);
        if (i % 2 == 0)
            put_d(p, 16 * k + i / 2, d * (float)(2 * scale + 1) * 0.125f);
        put8(p, 32 * k + i, codes1(lm_grid_iq1[index], h & (l % 2 ? 0x80 : 0x08)));
    }
}

/* ---- types without codebooks
 * ------------------------------------------------------------------------------------- */

static void put_scales(place p, uint64_t from, uint64_t n, float d)
{
    for (uint64_t i = 0; i < n; i++)
        put_d(p, from + i, d);
}

static uint64_t load8(const void *p)
{
    uint64_t x;

    memcpy(&x, p, 8);
    return x;
}

/* Return digit k of eight bytes that hold five ternary digits each, with the offset (-1 is stored as LOWEST):
 * the digit is the high byte of the 16-bit product (byte * 3^k mod 256) * 3. */
static uint64_t trits(uint64_t bytes, unsigned k)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    const uint64_t every = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t even = (bytes & every) * power[k] & every, odd = (bytes >> 8 & every) * power[k] & every;

    return (even * 3 >> 8 & every) + ((odd * 3 >> 8 & every) << 8) + LOWEST * EACH;
}

static void put_tq1_0(place p, uint64_t k, const lm_tq1_0 *b)
{
    put_scales(p, 16 * k, 16, lm_f16_to_f32(b->d));
    for (unsigned i = 0; i < 20; i++)
        put8(p, 32 * k + i, trits(load8(b->qs + 8 * (i % 4)), i / 4));
    for (unsigned i = 0; i < 10; i++)
        put8(p, 32 * k + 20 + i, trits(load8(b->qs + 32 + 8 * (i % 2)), i / 2));
    uint32_t last;
    memcpy(&last, b->qh, 4);
    for (unsigned i = 0; i < 2; i++)
        put8(p, 32 * k + 30 + i, (trits(last, 2 * i) & UINT32_MAX) | trits(last, 2 * i + 1) << 32);
}

static void put_tq2_0(place p, uint64_t k, const lm_tq2_0 *b)
{
    put_scales(p, 16 * k, 16, lm_f16_to_f32(b->d));
    for (unsigned i = 0; i < 32; i++)
        put8(p, 32 * k + i,
             (load8(b->qs + 32 * (i / 16) + 8 * (i % 4)) >> 2 * (i % 16 / 4) & 3 * EACH) + LOWEST * EACH);
}

static void put_q2_0(place p, uint64_t k, const lm_q2_0 *b)
{
    put_scales(p, 4 * k, 4, lm_f16_to_f32(b->d));
    for (unsigned i = 0; i < 8; i++)
        put8(p, 8 * k + i, spread2(b->qs[2 * i] | (uint64_t)b->qs[2 * i + 1] << 8) + LOWEST * EACH);
}

static void put_q1_0(place p, uint64_t k, const lm_q1_0 *b)
{
    put_scales(p, 8 * k, 8, lm_f16_to_f32(b->d));
    for (unsigned i = 0; i < 16; i++)
        put8(p, 16 * k + i, 2 * spread1(b->qs[i]) + LOWEST * EACH);
}

/* Return an unsigned E4M3 scale, halved because the value table is doubled. 0x7f means 0, not NaN. */
static float ue4m3_half(uint8_t d)
{
    unsigned exponent = d >> 3 & 15, mantissa = d & 7;

    if (d == 0x7f)
        return 0.0f;
    return exponent ? (float)((8 + mantissa) << exponent) * 0x1p-11f : (float)mantissa * 0x1p-10f;
}

/* E2M1: {0, 1, 2, 3, 4, 6, 8, 12} with a sign. */
static uint64_t codes_e2m1(uint64_t n)
{
    uint64_t b0 = n & EACH, b1 = n >> 1 & EACH, b2 = n >> 2 & EACH;

    return signed_bytes((n & 7 * EACH) + (b2 & b0) + 2 * (b2 & b1) + 2 * (b2 & b1 & b0), n >> 3 & EACH,
                        LM_OFFSET_small);
}

static void put_nvfp4(place p, uint64_t k, const lm_nvfp4 *b)
{
    for (unsigned s = 0; s < 4; s++) {
        uint64_t q = load8(b->qs + 8 * s);
        put_d(p, 4 * k + s, ue4m3_half(b->d[s]));
        put8(p, 8 * k + 2 * s, codes_e2m1(q & 15 * EACH));
        put8(p, 8 * k + 2 * s + 1, codes_e2m1(q >> 4 & 15 * EACH));
    }
}

/* ---- strips
 * ------------------------------------------------------------------------------------------------------ */

/* Unpack rows [from, from + n) of the matrix, block by block, so that the output stays in the first-level
 * cache. */
#define X(id, word, ...)                                                                         \
    static void strip_##word(uint8_t *strip, const lm_matmul_args *a, uint64_t from, uint32_t n) \
    {                                                                                            \
        const lm_dtype_info *t = lm_dtype_of(id);                                                \
        for (uint64_t k = 0; k < a->cols / t->block; k++)                                        \
            for (uint32_t i = 0; i < n; i++)                                                     \
                put_##word((place){ strip, i }, k,                                               \
                           (const lm_##word *)lm_stored_row(a->w, t, a->cols, from + i) + k);    \
    }
LM_BYTE_TYPES(X)
#undef X

lm_byte_unpack *lm_byte_unpack_ref(lm_dtype type)
{
    switch ((int)type) {
#define X(id, word, ...) \
    case id: return strip_##word;
        LM_BYTE_TYPES(X)
#undef X
    default: return NULL;
    }
}

static uint64_t strip_bytes(uint64_t cols)
{
    return cols / 32 * LM_BYTE_UNIT;
}

uint64_t lm_byte_strips_scratch(uint64_t cols, uint64_t own)
{
    return own + LM_BYTE_STRIPS * strip_bytes(cols);
}

void lm_byte_strips_run(const lm_matmul_args *a, lm_byte_unpack *unpack, lm_byte_rows *rows_of_file,
                        void (*run)(const lm_matmul_args *a), uint64_t own)
{
    uint8_t *strips = (uint8_t *)a->scratch + own;
    const uint64_t max = LM_BYTE_STRIPS * LM_BYTE_ROWS;
    uint64_t from = a->first;

    if (rows_of_file && a->n == 1) {
        from += (a->last - from) / 8 * 8;
        rows_of_file(a, from);
    }
    for (; from < a->last; from += max) {
        uint64_t rows = a->last - from < max ? a->last - from : max;
        if (rows % LM_BYTE_ROWS) /* lanes without a row: their results are not stored */
            memset(strips, 0, LM_BYTE_STRIPS * strip_bytes(a->cols));
        for (uint64_t at = 0; at < rows; at += LM_BYTE_ROWS)
            unpack(strips + at / LM_BYTE_ROWS * strip_bytes(a->cols), a, from + at,
                   (uint32_t)(rows - at < LM_BYTE_ROWS ? rows - at : LM_BYTE_ROWS));
        lm_matmul_args part = *a;
        part.w = strips;
        part.rows = part.last = rows;
        part.first = 0;
        part.y = a->y + from;
        part.bias = a->bias ? a->bias + from : NULL;
        part.add = a->add ? a->add + from : NULL;
        run(&part);
    }
}
