/* strips.c - building and reading strips in plain C. */
#include "kernels/strips.h"

#include <string.h>

#include "tensor/blocks.h"

/* Numbers of a row, in order: d; d, m; for K types d, dmin ahead and scale and minimum bytes (Q2_K: both in a byte for
 * each 16 columns; Q3_K, Q6_K: a signed scale for each 16; IQ4_XS: a signed scale). MXFP4: its exponent. */
static const lm_strip_layout layouts[] = {
    { .type = LM_Q4_0, .unit_f16 = 1, .nibbles = 1 },
    { .type = LM_Q4_1, .unit_f16 = 2, .nibbles = 1 },
    { .type = LM_Q5_0, .unit_f16 = 1, .nibbles = 1, .bits = 1 },
    { .type = LM_Q5_1, .unit_f16 = 2, .nibbles = 1, .bits = 1 },
    { .type = LM_Q8_0, .unit_f16 = 1, .bytes = 1 },
    { .type = LM_IQ4_NL, .unit_f16 = 1, .nibbles = 1 },
    { .type = LM_MXFP4, .unit_u8 = 1, .nibbles = 1 },
    { .type = LM_Q2_K, .head_f16 = 2, .unit_u8 = 2, .pairs = 1 },
    { .type = LM_Q3_K, .head_f16 = 1, .unit_u8 = 2, .pairs = 1, .bits = 1 },
    { .type = LM_Q4_K, .head_f16 = 2, .unit_u8 = 2, .nibbles = 1 },
    { .type = LM_Q5_K, .head_f16 = 2, .unit_u8 = 2, .nibbles = 1, .bits = 1 },
    { .type = LM_Q6_K, .head_f16 = 1, .unit_u8 = 2, .nibbles = 1, .pairs = 1 },
    { .type = LM_IQ4_XS, .head_f16 = 1, .unit_u8 = 1, .nibbles = 1 },
};

const lm_strip_layout *lm_strip_of(lm_dtype type)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

/* One row's part of a unit, free of its layout. */
typedef struct unit {
    uint16_t head[2], f16[2];
    uint8_t  u8[2];
    uint8_t  nibbles[16];            /* low four bits of columns i and i + 16 */
    uint8_t  code[32];               /* bytes, or two bits */
    uint32_t bits;                   /* one bit of each column */
} unit;

/* ---- from the blocks of the file --------------------------------------------------------------------------------- */

/* A sub-block whose 32 codes of four bits are in the low or the high halves of 32 bytes. */
static void nibbles_of_half(uint8_t out[16], const uint8_t *qs, unsigned high)
{
    for (unsigned i = 0; i < 16; i++)
        out[i] = high ? (uint8_t)(qs[i] >> 4 | (qs[i + 16] & 0xf0)) : (uint8_t)((qs[i] & 15) | qs[i + 16] << 4);
}

static uint32_t bits_of(const uint8_t bytes[32], unsigned bit)
{
    uint32_t word = 0;
    for (unsigned i = 0; i < 32; i++)
        word |= ((uint32_t)bytes[i] >> bit & 1) << i;
    return word;
}

static void pairs_of(uint8_t out[32], const uint8_t bytes[32], unsigned shift)
{
    for (unsigned i = 0; i < 32; i++)
        out[i] = bytes[i] >> shift & 3;
}

/* Types of 32 elements a block. */
static void read_block(lm_dtype type, const void *block, unit *u)
{
    switch ((int)type) {
    case LM_Q4_0: case LM_IQ4_NL: {
        const lm_q4_0 *b = block;
        u->f16[0] = b->d;
        memcpy(u->nibbles, b->qs, 16);
        break;
    }
    case LM_Q4_1: {
        const lm_q4_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        memcpy(u->nibbles, b->qs, 16);
        break;
    }
    case LM_Q5_0: {
        const lm_q5_0 *b = block;
        u->f16[0] = b->d;
        u->bits = b->qh;
        memcpy(u->nibbles, b->qs, 16);
        break;
    }
    case LM_Q5_1: {
        const lm_q5_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        u->bits = b->qh;
        memcpy(u->nibbles, b->qs, 16);
        break;
    }
    case LM_Q8_0: {
        const lm_q8_0 *b = block;
        u->f16[0] = b->d;
        memcpy(u->code, b->qs, 32);
        break;
    }
    case LM_MXFP4: {
        const lm_mxfp4 *b = block;
        u->u8[0] = b->e;
        memcpy(u->nibbles, b->qs, 16);
        break;
    }
    default: break;
    }
}

/* Columns 32*s .. of a block of 256. */
static void read_sub_block(lm_dtype type, const void *block, unsigned s, unit *u)
{
    switch ((int)type) {
    case LM_IQ4_XS: {
        const lm_iq4_xs *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)(((b->scales_l[s / 2] >> 4 * (s % 2) & 15) | (b->scales_h >> 2 * s & 3) << 4) - 32);
        memcpy(u->nibbles, b->qs + 16 * s, 16);
        break;
    }
    case LM_Q4_K: {
        const lm_q4_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        nibbles_of_half(u->nibbles, b->qs + 32 * (s / 2), s % 2);
        break;
    }
    case LM_Q5_K: {
        const lm_q5_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        nibbles_of_half(u->nibbles, b->qs + 32 * (s / 2), s % 2);
        u->bits = bits_of(b->qh, s);
        break;
    }
    case LM_Q6_K: {
        const lm_q6_k *b = block;
        u->head[0] = b->d;
        memcpy(u->u8, b->scales + 2 * s, 2);
        nibbles_of_half(u->nibbles, b->ql + 64 * (s / 4) + 32 * (s & 1), s % 4 >= 2);
        pairs_of(u->code, b->qh + 32 * (s / 4), 2 * (s % 4));
        break;
    }
    case LM_Q2_K: {
        const lm_q2_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        memcpy(u->u8, b->scales + 2 * s, 2);
        pairs_of(u->code, b->qs + 32 * (s / 4), 2 * (s % 4));
        break;
    }
    case LM_Q3_K: {
        const lm_q3_k *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)lm_k3_scale(b->scales, 2 * s);
        u->u8[1] = (uint8_t)lm_k3_scale(b->scales, 2 * s + 1);
        pairs_of(u->code, b->qs + 32 * (s / 4), 2 * (s % 4));
        u->bits = bits_of(b->hmask, s);
        break;
    }
    default: break;
    }
}

static int code_of(const lm_strip_layout *l, const unit *u, int i)
{
    int nibble = i < 16 ? u->nibbles[i] & 15 : u->nibbles[i - 16] >> 4, bit = (int)(u->bits >> i & 1);

    if (!l->nibbles)
        return u->code[i] | (l->bits ? bit << 2 : 0);
    return nibble | (l->pairs ? u->code[i] << 4 : 0) | (l->bits ? bit << 4 : 0);
}

/* The float32 values of a unit: the arithmetic of the type's unpack, operation for operation. */
static void unit_values(const lm_strip_layout *l, const unit *u, float y[32])
{
    float d = lm_f16_to_f32(u->f16[0]), m = lm_f16_to_f32(u->f16[1]);
    float D = lm_f16_to_f32(u->head[0]), M = lm_f16_to_f32(u->head[1]);

    for (int i = 0; i < 32; i++) {
        int code = code_of(l, u, i), half = i / 16;
        switch ((int)l->type) {
        case LM_Q4_0: y[i] = d * (float)(code - 8); break;
        case LM_Q4_1: case LM_Q5_1: y[i] = d * (float)code + m; break;
        case LM_Q5_0: y[i] = d * (float)(code - 16); break;
        case LM_Q8_0: y[i] = d * (float)(int8_t)code; break;
        case LM_IQ4_NL: y[i] = d * (float)lm_iq4_values[code]; break;
        case LM_MXFP4: y[i] = lm_e8m0_half(u->u8[0]) * (float)lm_e2m1_values[code]; break;
        case LM_IQ4_XS: y[i] = D * (float)(int8_t)u->u8[0] * (float)lm_iq4_values[code]; break;
        case LM_Q4_K: case LM_Q5_K: y[i] = D * (float)u->u8[0] * (float)code - M * (float)u->u8[1]; break;
        case LM_Q6_K: y[i] = D * (float)(int8_t)u->u8[half] * (float)(code - 32); break;
        case LM_Q2_K: y[i] = D * (float)(u->u8[half] & 15) * (float)code - M * (float)(u->u8[half] >> 4); break;
        case LM_Q3_K: y[i] = D * (float)(int8_t)u->u8[half] * (float)(code - 4); break;
        default: y[i] = 0.0f;
        }
    }
}

/* ---- into and out of a strip ------------------------------------------------------------------------------------- */

/* Where the parts of unit b of a strip begin. */
typedef struct place {
    uint8_t *head, *f16, *u8, *nibbles, *bytes, *pairs, *bits;
} place;

static place place_of(const lm_strip_layout *l, uint32_t r, uint8_t *strip, uint64_t b)
{
    place p = { .head = strip };

    if (l->head_f16) {
        p.head = strip + b / 8 * (lm_strip_head(l, r) + 8ull * lm_strip_unit(l, r));
        p.f16 = p.head + lm_strip_head(l, r) + b % 8 * lm_strip_unit(l, r);
    } else {
        p.f16 = strip + b * lm_strip_unit(l, r);
    }
    p.u8 = p.f16 + 2 * r * l->unit_f16;
    p.nibbles = p.u8 + r * l->unit_u8;
    p.bytes = p.nibbles + 16 * r * l->nibbles;
    p.pairs = p.bytes + 32 * r * l->bytes;
    p.bits = p.pairs + 8 * r * l->pairs;
    return p;
}

/* Four bytes of vector v. */
static void put_lane(uint8_t *plane, uint32_t r, uint32_t v, uint32_t row, const uint8_t bytes[4])
{
    memcpy(plane + 4 * (v * r + row), bytes, 4);
}

static void write_unit(const lm_strip_layout *l, uint32_t r, place p, uint32_t row, const unit *u)
{
    uint8_t lane[4];

    for (uint32_t i = 0; i < l->head_f16; i++)
        memcpy(p.head + 2 * (i * r + row), &u->head[i], 2);
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(p.f16 + 2 * (i * r + row), &u->f16[i], 2);
    for (uint32_t i = 0; i < l->unit_u8; i++)
        p.u8[i * r + row] = u->u8[i];
    for (uint32_t v = 0; v < 8 && l->bytes; v++)
        put_lane(p.bytes, r, v, row, u->code + 4 * v);
    for (uint32_t v = 0; v < 4 && l->nibbles; v++)
        put_lane(p.nibbles, r, v, row, u->nibbles + 4 * v);
    for (uint32_t h = 0; h < 2 && l->pairs; h++) {
        const uint8_t *c = u->code + 16 * h;
        for (uint32_t j = 0; j < 4; j++)
            lane[j] = (uint8_t)(c[j] | c[4 + j] << 2 | c[8 + j] << 4 | c[12 + j] << 6);
        put_lane(p.pairs, r, h, row, lane);
    }
    if (l->bits) {
        memset(lane, 0, 4);
        for (uint32_t k = 0; k < 32; k++)
            lane[k % 4] |= (uint8_t)((u->bits >> k & 1) << k / 4);
        put_lane(p.bits, r, 0, row, lane);
    }
}

/* The inverse. */
static void read_unit(const lm_strip_layout *l, uint32_t r, place p, uint32_t row, unit *u)
{
    for (uint32_t i = 0; i < l->head_f16; i++)
        memcpy(&u->head[i], p.head + 2 * (i * r + row), 2);
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(&u->f16[i], p.f16 + 2 * (i * r + row), 2);
    for (uint32_t i = 0; i < l->unit_u8; i++)
        u->u8[i] = p.u8[i * r + row];
    for (uint32_t v = 0; v < 8 && l->bytes; v++)
        memcpy(u->code + 4 * v, p.bytes + 4 * (v * r + row), 4);
    for (uint32_t v = 0; v < 4 && l->nibbles; v++)
        memcpy(u->nibbles + 4 * v, p.nibbles + 4 * (v * r + row), 4);
    for (uint32_t k = 0; k < 32 && l->pairs; k++)
        u->code[k] = p.pairs[4 * (k / 16 * r + row) + k % 4] >> 2 * (k / 4 % 4) & 3;
    for (uint32_t k = 0; k < 32 && l->bits; k++)
        u->bits |= ((uint32_t)p.bits[4 * row + k % 4] >> k / 4 & 1) << k;
}

uint64_t lm_strip_packed_bytes(const lm_strip_layout *l, uint32_t r, uint64_t rows, uint64_t cols)
{
    return ((rows + r - 1) / r * lm_strip_bytes(l, r, cols) + 63) & ~UINT64_C(63);
}

void lm_strip_pack(const lm_strip_layout *l, uint32_t r, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                   uint64_t first, uint64_t last)
{
    const lm_dtype_info *t = lm_dtype_of(l->type);
    uint64_t row_bytes = cols / t->block * t->bytes, strip_bytes = lm_strip_bytes(l, r, cols), per_block = t->block / 32;

    (void)rows;
    for (uint64_t at = first; at < last; at += r) {
        uint8_t *strip = (uint8_t *)dst + at / r * strip_bytes;
        if (last - at < r)
            memset(strip, 0, strip_bytes);
        for (uint64_t b = 0; b < cols / 32; b++) {
            place p = place_of(l, r, strip, b);
            for (uint32_t i = 0; i < r && at + i < last; i++) {
                const uint8_t *block = (const uint8_t *)stored + (at + i) * row_bytes + b / per_block * t->bytes;
                unit u;
                if (per_block == 1)
                    read_block(l->type, block, &u);
                else
                    read_sub_block(l->type, block, (unsigned)(b % per_block), &u);
                write_unit(l, r, p, i, &u);
            }
        }
    }
}

void lm_strip_row(const lm_strip_layout *l, uint32_t r, float *dst, const void *w, uint64_t cols, uint64_t row)
{
    /* place_of serves writers too; nothing is written through it here. */
    uint8_t *strip = (uint8_t *)(uintptr_t)w + row / r * lm_strip_bytes(l, r, cols);

    for (uint64_t b = 0; b < cols / 32; b++) {
        unit u = { 0 };
        read_unit(l, r, place_of(l, r, strip, b), (uint32_t)(row % r), &u);
        unit_values(l, &u, dst + 32 * b);
    }
}
