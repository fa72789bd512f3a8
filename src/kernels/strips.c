/* strips.c - extract a row from a strip, in plain C. */
#include "kernels/strips.h"

#include <string.h>

#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS };

/* One row's part of a unit, independent of the layout. */
typedef struct unit {
    uint16_t head[2], f16[2];
    uint8_t  u8[2];                  /* the unit's bytes, or its scales */
    uint8_t  nibbles[16];            /* low four bits of columns i and i + 16 */
    uint8_t  code[32];               /* bytes, or two bits */
    uint32_t bits;                   /* one bit of each column */
} unit;

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
        case LM_IQ4_XS: y[i] = D * (float)(u->u8[0] - 32) * (float)lm_iq4_values[code]; break;
        case LM_Q4_K: case LM_Q5_K: y[i] = D * (float)u->u8[0] * (float)code - M * (float)u->u8[1]; break;
        case LM_Q6_K: y[i] = D * (float)(int8_t)u->u8[half] * (float)(code - 32); break;
        case LM_Q2_K:
            y[i] = D * (float)(u->u8[half] & 15) * (float)code - M * (float)(u->u8[half] >> 4);
            break;
        case LM_Q3_K: y[i] = D * (float)(u->u8[half] - 32) * (float)(code - 4); break;
        default: y[i] = 0.0f;
        }
    }
}

/* ---- reading a strip
 * ------------------------------------------------------------------------------------------ */

/* The start of each part of a unit of a strip. */
typedef struct place {
    const uint8_t *head, *f16, *u8, *nibbles, *bytes, *pairs, *bits;
} place;

static place place_of(const lm_strip_layout *l, const uint8_t *strip, uint64_t b)
{
    place p = { .head = strip };

    if (l->head_f16) {
        p.head = strip + b / 8 * (lm_strip_head(l) + 8ull * lm_strip_unit(l));
        p.f16 = p.head + lm_strip_head(l) + b % 8 * lm_strip_unit(l);
    } else {
        p.f16 = strip + b * lm_strip_unit(l);
    }
    p.u8 = p.f16 + 2 * R * l->unit_f16;
    p.nibbles = p.u8 + R * l->unit_u8;
    p.bytes = p.nibbles + 16 * R * l->nibbles;
    p.pairs = p.bytes + 32 * R * l->bytes;
    p.bits = p.pairs + 8 * R * l->pairs;
    return p;
}

static void read_unit(const lm_strip_layout *l, place p, const uint8_t *scales, uint32_t row, uint32_t of8,
                      unit *u)
{
    for (uint32_t i = 0; i < l->head_f16; i++)
        memcpy(&u->head[i], p.head + 2 * (i * R + row), 2);
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(&u->f16[i], p.f16 + 2 * (i * R + row), 2);
    for (uint32_t i = 0; i < l->unit_u8; i++)
        u->u8[i] = p.u8[i * R + row];
    const uint32_t each = l->scales == 6 ? 1 : l->scales ? 2 : 0;
    for (uint32_t i = 0; i < each; i++)
        u->u8[i] = scales[(each * of8 + i) * R + row];
    for (uint32_t v = 0; v < 8 && l->bytes; v++)
        memcpy(u->code + 4 * v, p.bytes + 4 * (v * R + row), 4);
    for (uint32_t v = 0; v < 4 && l->nibbles; v++)
        memcpy(u->nibbles + 4 * v, p.nibbles + 4 * (v * R + row), 4);
    for (uint32_t k = 0; k < 32 && l->pairs; k++)
        u->code[k] = p.pairs[4 * (k / 16 * R + row) + k % 4] >> 2 * (k / 4 % 4) & 3;
    for (uint32_t k = 0; k < 32 && l->bits; k++)
        u->bits |= ((uint32_t)p.bits[4 * row + k % 4] >> k / 4 & 1) << k;
}

void lm_strip_row(const lm_strip_layout *l, float *dst, const void *w, uint64_t cols, uint64_t row)
{
    const uint8_t *strip = (const uint8_t *)w + row / R * lm_strip_bytes(l, cols), *scales = NULL;
    uint8_t bytes[16 * R];

    for (uint64_t b = 0; b < cols / 32; b++) {
        unit u = { 0 };
        place p = place_of(l, strip, b);
        if (b % 8 == 0)
            scales = lm_strip_scales(p.head + 2 * R * l->head_f16, l->scales, 0, bytes);
        read_unit(l, p, scales, (uint32_t)(row % R), (uint32_t)(b % 8), &u);
        unit_values(l, &u, dst + 32 * b);
    }
}
