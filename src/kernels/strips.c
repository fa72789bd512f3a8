/* strips.c - building and reading strips, and the activations for them, in plain C. */
#include "kernels/strips.h"

#include <float.h>
#include <math.h>
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
    uint8_t  u8[2], code[32];
} unit;

/* ---- from and to the blocks of the file -------------------------------------------------------------------------- */

static void codes_of_nibbles(uint8_t code[32], const uint8_t qs[16])
{
    for (int i = 0; i < 16; i++) {
        code[i] = qs[i] & 15;
        code[i + 16] = qs[i] >> 4;
    }
}

static void add_bits(uint8_t code[32], uint32_t bits, int at)
{
    for (int i = 0; i < 32; i++)
        code[i] |= (uint8_t)((bits >> i & 1) << at);
}

/* Columns 32*s .. of a block of 32 (s = 0) or 256. */
static void read_unit(lm_dtype type, const void *block, unsigned s, unit *u)
{
    switch ((int)type) {
    case LM_Q4_0: case LM_IQ4_NL: {
        const lm_q4_0 *b = block;
        u->f16[0] = b->d;
        codes_of_nibbles(u->code, b->qs);
        break;
    }
    case LM_Q4_1: {
        const lm_q4_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        codes_of_nibbles(u->code, b->qs);
        break;
    }
    case LM_Q5_0: {
        const lm_q5_0 *b = block;
        u->f16[0] = b->d;
        codes_of_nibbles(u->code, b->qs);
        add_bits(u->code, b->qh, 4);
        break;
    }
    case LM_Q5_1: {
        const lm_q5_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        codes_of_nibbles(u->code, b->qs);
        add_bits(u->code, b->qh, 4);
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
        codes_of_nibbles(u->code, b->qs);
        break;
    }
    case LM_IQ4_XS: {
        const lm_iq4_xs *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)(((b->scales_l[s / 2] >> 4 * (s % 2) & 15) | (b->scales_h >> 2 * s & 3) << 4) - 32);
        codes_of_nibbles(u->code, b->qs + 16 * s);
        break;
    }
    case LM_Q4_K: {
        const lm_q4_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        for (unsigned l = 0; l < 32; l++)
            u->code[l] = b->qs[32 * (s / 2) + l] >> 4 * (s % 2) & 15;
        break;
    }
    case LM_Q5_K: {
        const lm_q5_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        for (unsigned l = 0; l < 32; l++)
            u->code[l] = (uint8_t)((b->qs[32 * (s / 2) + l] >> 4 * (s % 2) & 15) | (b->qh[l] >> s & 1) << 4);
        break;
    }
    case LM_Q6_K: {
        const lm_q6_k *b = block;
        u->head[0] = b->d;
        memcpy(u->u8, b->scales + 2 * s, 2);
        for (unsigned l = 0; l < 32; l++) {
            unsigned low = (unsigned)b->ql[64 * (s / 4) + 32 * (s & 1) + l] >> (s % 4 < 2 ? 0 : 4) & 15;
            u->code[l] = (uint8_t)(low | ((unsigned)b->qh[32 * (s / 4) + l] >> 2 * (s % 4) & 3) << 4);
        }
        break;
    }
    case LM_Q2_K: {
        const lm_q2_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        memcpy(u->u8, b->scales + 2 * s, 2);
        for (unsigned l = 0; l < 32; l++)
            u->code[l] = b->qs[32 * (s / 4) + l] >> 2 * (s % 4) & 3;
        break;
    }
    case LM_Q3_K: {
        const lm_q3_k *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)lm_k3_scale(b->scales, 2 * s);
        u->u8[1] = (uint8_t)lm_k3_scale(b->scales, 2 * s + 1);
        for (unsigned l = 0; l < 32; l++)
            u->code[l] = (uint8_t)((b->qs[32 * (s / 4) + l] >> 2 * (s % 4) & 3) | (b->hmask[l] >> s & 1) << 2);
        break;
    }
    default: break;
    }
}

/* The float32 values of a unit: the arithmetic of the type's unpack, operation for operation. */
static void unit_values(lm_dtype type, const unit *u, float y[32])
{
    float d = lm_f16_to_f32(u->f16[0]), m = lm_f16_to_f32(u->f16[1]);
    float D = lm_f16_to_f32(u->head[0]), M = lm_f16_to_f32(u->head[1]);

    for (int i = 0; i < 32; i++) {
        int code = u->code[i], half = i / 16;
        switch ((int)type) {
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

static void write_unit(const lm_strip_layout *l, uint32_t r, place p, uint32_t row, const unit *u)
{
    uint32_t shift = l->nibbles ? 4 : 0, bit_shift = l->pairs ? shift + 2 : shift;

    for (uint32_t i = 0; i < l->head_f16; i++)
        memcpy(p.head + 2 * (i * r + row), &u->head[i], 2);
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(p.f16 + 2 * (i * r + row), &u->f16[i], 2);
    for (uint32_t i = 0; i < l->unit_u8; i++)
        p.u8[i * r + row] = u->u8[i];
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t v = k / 4, at = 4 * row + k % 4, code = u->code[k], line = 4 * r;
        if (l->bytes)
            p.bytes[v * line + at] = (uint8_t)code;
        if (l->nibbles)
            p.nibbles[v % 4 * line + at] |= (uint8_t)((code & 15) << (v < 4 ? 0 : 4));
        if (l->pairs)
            p.pairs[v / 4 * line + at] |= (uint8_t)((code >> shift & 3) << 2 * (v % 4));
        if (l->bits)
            p.bits[at] |= (uint8_t)((code >> bit_shift & 1) << v);
    }
}

static void read_place(const lm_strip_layout *l, uint32_t r, place p, uint32_t row, unit *u)
{
    uint32_t shift = l->nibbles ? 4 : 0, bit_shift = l->pairs ? shift + 2 : shift;

    for (uint32_t i = 0; i < l->head_f16; i++)
        memcpy(&u->head[i], p.head + 2 * (i * r + row), 2);
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(&u->f16[i], p.f16 + 2 * (i * r + row), 2);
    for (uint32_t i = 0; i < l->unit_u8; i++)
        u->u8[i] = p.u8[i * r + row];
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t v = k / 4, at = 4 * row + k % 4, line = 4 * r, code = 0;
        if (l->bytes)
            code = p.bytes[v * line + at];
        if (l->nibbles)
            code = (uint32_t)p.nibbles[v % 4 * line + at] >> (v < 4 ? 0 : 4) & 15;
        if (l->pairs)
            code |= ((uint32_t)p.pairs[v / 4 * line + at] >> 2 * (v % 4) & 3) << shift;
        if (l->bits)
            code |= ((uint32_t)p.bits[at] >> v & 1) << bit_shift;
        u->code[k] = (uint8_t)code;
    }
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
        memset(strip, 0, strip_bytes);
        for (uint32_t i = 0; i < r && at + i < last; i++) {
            const uint8_t *row = (const uint8_t *)stored + (at + i) * row_bytes;
            for (uint64_t b = 0; b < cols / 32; b++) {
                unit u;
                read_unit(l->type, row + b / per_block * t->bytes, (unsigned)(b % per_block), &u);
                write_unit(l, r, place_of(l, r, strip, b), i, &u);
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
        read_place(l, r, place_of(l, r, strip, b), (uint32_t)(row % r), &u);
        unit_values(l->type, &u, dst + 32 * b);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

uint64_t lm_q8_bytes(uint64_t cols)
{
    return lm_q8_align(cols) + 2 * lm_q8_align(cols / 8) + lm_q8_align(cols / 4);
}

/* The largest magnitude of 32, NaN above infinity above all. */
static float largest(const float x[32])
{
    uint32_t most = 0;
    float f;

    for (int i = 0; i < 32; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&f, &most, 4);
    return f;
}

void lm_q8_pack(void *dst, const float *x, uint64_t cols)
{
    lm_q8_row y = lm_q8_row_at(dst, cols);

    for (uint64_t b = 0; b < cols / 32; b++) {
        float max = largest(x + 32 * b), id = max >= LM_Q8_LEAST && max <= FLT_MAX ? 127.0f / max : 0.0f;
        int total[2] = { 0, 0 };
        for (uint64_t i = 0; i < 32; i++) {
            float v = x[32 * b + i] * id;
            int code = v == v ? (int)lrintf(v) : 0;
            y.q[32 * b + i] = (int8_t)code;
            total[i / 16] += code;
        }
        float d = y.d[b] = max / 127.0f;
        y.half[2 * b] = d * (float)total[0];
        y.half[2 * b + 1] = d * (float)total[1];
        y.sum[b] = d * (float)(total[0] + total[1]);
    }
}
