/* strips_pack.c - pack the blocks of a file into strips. The whole model is packed before its first token, so packing must be as fast as
 * reading: a unit's parts are handled as words throughout, and there is one function per type. */
#include <string.h>

#include "kernels/strips.h"
#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS };

#ifdef __SANITIZE_ADDRESS__
#define INLINE static                /* one copy for all types: thirteen instrumented ones compile for a minute and a half */
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* One row's part of a unit in the layout of a strip: four columns per word. */
typedef struct words {
    uint16_t head[2], f16[2];
    uint8_t  u8[2];                  /* the unit's bytes, or its scales */
    uint32_t nibbles[4];             /* low four bits of columns 4v … and 16 + 4v … */
    uint32_t bytes[8];
    uint32_t pairs[2];               /* field f of the first: columns 4f …, of the second: 16 + 4f … */
    uint32_t bits;                   /* byte j, bit v: column 4v + j */
} words;

INLINE uint32_t word_at(const void *p)
{
    uint32_t w;

    memcpy(&w, p, 4);
    return w;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Read a sub-block whose 32 four-bit codes are in the low or the high halves of 32 bytes. */
INLINE void nibbles_of_half(words *u, const uint8_t *qs, unsigned high)
{
    for (unsigned v = 0; v < 4; v++) {
        uint32_t a = word_at(qs + 4 * v), b = word_at(qs + 16 + 4 * v);
        u->nibbles[v] = high ? (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0) : (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4;
    }
}

/* Read two bits of each of 32 bytes. */
INLINE void pairs_of(words *u, const uint8_t *bytes, unsigned shift)
{
    for (unsigned h = 0; h < 2; h++) {
        u->pairs[h] = 0;
        for (unsigned f = 0; f < 4; f++)
            u->pairs[h] |= (word_at(bytes + 16 * h + 4 * f) >> shift & 0x03030303) << 2 * f;
    }
}

/* Read one bit of each of 32 bytes. */
INLINE uint32_t bits_of(const uint8_t *bytes, unsigned bit)
{
    uint32_t word = 0;

    for (unsigned v = 0; v < 8; v++)
        word |= (word_at(bytes + 4 * v) >> bit & 0x01010101) << v;
    return word;
}

/* Rearrange bits of which bit i is column i: every fourth bit goes into one byte. */
INLINE uint32_t bits_of_word(uint32_t columns)
{
    uint32_t word = 0;

    for (unsigned j = 0; j < 4; j++) {
        uint32_t x = columns >> j & 0x11111111;
        x = (x | x >> 3) & 0x03030303;
        x = (x | x >> 6) & 0x000f000f;
        word |= ((x | x >> 12) & 0xff) << 8 * j;
    }
    return word;
}

INLINE void copy_words(uint32_t *out, const void *from, unsigned n)
{
    memcpy(out, from, 4 * n);
}

/* Read a block of a type with 32 elements per block. */
INLINE void read_block(lm_dtype type, const void *block, words *u)
{
    switch ((int)type) {
    case LM_Q4_0: case LM_IQ4_NL: {
        const lm_q4_0 *b = block;
        u->f16[0] = b->d;
        copy_words(u->nibbles, b->qs, 4);
        break;
    }
    case LM_Q4_1: {
        const lm_q4_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        copy_words(u->nibbles, b->qs, 4);
        break;
    }
    case LM_Q5_0: {
        const lm_q5_0 *b = block;
        u->f16[0] = b->d;
        u->bits = bits_of_word(b->qh);
        copy_words(u->nibbles, b->qs, 4);
        break;
    }
    case LM_Q5_1: {
        const lm_q5_1 *b = block;
        u->f16[0] = b->d;
        u->f16[1] = b->m;
        u->bits = bits_of_word(b->qh);
        copy_words(u->nibbles, b->qs, 4);
        break;
    }
    case LM_Q8_0: {
        const lm_q8_0 *b = block;
        u->f16[0] = b->d;
        copy_words(u->bytes, b->qs, 8);
        break;
    }
    case LM_MXFP4: {
        const lm_mxfp4 *b = block;
        u->u8[0] = b->e;
        copy_words(u->nibbles, b->qs, 4);
        break;
    }
    default: break;
    }
}

/* Read columns 32 s … 32 s + 31 of a block of 256. */
INLINE void read_sub_block(lm_dtype type, const void *block, unsigned s, words *u)
{
    switch ((int)type) {
    case LM_IQ4_XS: {
        const lm_iq4_xs *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)((b->scales_l[s / 2] >> 4 * (s % 2) & 15) | (b->scales_h >> 2 * s & 3) << 4);
        copy_words(u->nibbles, b->qs + 16 * s, 4);
        break;
    }
    case LM_Q4_K: {
        const lm_q4_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        nibbles_of_half(u, b->qs + 32 * (s / 2), s % 2);
        break;
    }
    case LM_Q5_K: {
        const lm_q5_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        lm_k4_scale_min(b->scales, s, &u->u8[0], &u->u8[1]);
        nibbles_of_half(u, b->qs + 32 * (s / 2), s % 2);
        u->bits = bits_of(b->qh, s);
        break;
    }
    case LM_Q6_K: {
        const lm_q6_k *b = block;
        u->head[0] = b->d;
        memcpy(u->u8, b->scales + 2 * s, 2);
        nibbles_of_half(u, b->ql + 64 * (s / 4) + 32 * (s & 1), s % 4 >= 2);
        pairs_of(u, b->qh + 32 * (s / 4), 2 * (s % 4));
        break;
    }
    case LM_Q2_K: {
        const lm_q2_k *b = block;
        u->head[0] = b->d;
        u->head[1] = b->dmin;
        memcpy(u->u8, b->scales + 2 * s, 2);
        pairs_of(u, b->qs + 32 * (s / 4), 2 * (s % 4));
        break;
    }
    case LM_Q3_K: {
        const lm_q3_k *b = block;
        u->head[0] = b->d;
        u->u8[0] = (uint8_t)(lm_k3_scale(b->scales, 2 * s) + 32);
        u->u8[1] = (uint8_t)(lm_k3_scale(b->scales, 2 * s + 1) + 32);
        pairs_of(u, b->qs + 32 * (s / 4), 2 * (s % 4));
        u->bits = bits_of(b->hmask, s);
        break;
    }
    default: break;
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* `unit`: the start of the unit's own numbers. */
INLINE void write_unit(const lm_strip_layout *l, uint8_t *unit, uint32_t row, const words *u)
{
    for (uint32_t i = 0; i < l->unit_f16; i++)
        memcpy(unit + 2 * (i * R + row), &u->f16[i], 2);
    unit += 2 * R * l->unit_f16;
    for (uint32_t i = 0; i < l->unit_u8; i++)
        unit[i * R + row] = u->u8[i];
    unit += R * l->unit_u8 + 4 * row;
    for (uint32_t v = 0; v < 4u * l->nibbles; v++, unit += 4 * R)
        memcpy(unit, &u->nibbles[v], 4);
    for (uint32_t v = 0; v < 8u * l->bytes; v++, unit += 4 * R)
        memcpy(unit, &u->bytes[v], 4);
    for (uint32_t h = 0; h < 2u * l->pairs; h++, unit += 4 * R)
        memcpy(unit, &u->pairs[h], 4);
    if (l->bits)
        memcpy(unit, &u->bits, 4);
}

/* Write the scales of eight units, from bytes [j][R], for all rows. */
INLINE void write_scales(const lm_strip_layout *l, uint8_t *restrict to, const uint8_t *restrict j)
{
    const uint32_t quarter = l->scales / 3 * R;

    if (l->scales == 16) {
        memcpy(to, j, 16 * R);
        return;
    }
    for (uint32_t i = 0; i < 2 * quarter; i++)
        to[i] = (uint8_t)((j[i] & 15) | j[2 * quarter + i] << 4);
    for (uint32_t i = 0; i < quarter; i++)
        to[2 * quarter + i] = (uint8_t)(j[i] >> 4 | j[quarter + i] >> 4 << 2 | j[2 * quarter + i] >> 4 << 4 |
                                        j[3 * quarter + i] >> 4 << 6);
}

/* Pack rows [0, n) of a strip, 256 columns at a time: the output then stays in the first-level cache, and each row is read in
 * whole cache lines. */
INLINE void pack_strip(const lm_strip_layout *l, uint8_t *strip, const uint8_t *stored, uint64_t row_bytes,
                       uint32_t n, uint64_t units)
{
    const lm_dtype type = l->type;
    const uint32_t head = lm_strip_head(l), unit_bytes = lm_strip_unit(l);
    const uint64_t block_bytes = lm_dtype_of(type)->bytes;
    const uint32_t of_unit = l->scales == 6 ? 1 : 2;
    uint8_t        scales[16 * R] = { 0 };

    for (uint64_t b = 0; b < units; b += 8, strip += head + 8 * (uint64_t)unit_bytes) {
        uint32_t many = units - b < 8 ? (uint32_t)(units - b) : 8;
        for (uint32_t row = 0; row < n; row++) {
            const uint8_t *block = stored + row * row_bytes + (l->head_f16 ? b / 8 : b) * block_bytes;
            words          u     = { .head = { 0 } };
            for (uint32_t s = 0; s < many && !l->head_f16; s++) {
                read_block(type, block + s * block_bytes, &u);
                write_unit(l, strip + s * unit_bytes, row, &u);
            }
            if (!l->head_f16)
                continue;
#pragma GCC unroll 8
            for (uint32_t s = 0; s < 8; s++) {                               /* shifts are constants when unrolled */
                read_sub_block(type, block, s, &u);
                for (uint32_t i = 0; i < of_unit; i++)
                    scales[(of_unit * s + i) * R + row] = u.u8[i];
                write_unit(l, strip + head + s * unit_bytes, row, &u);
            }
            for (uint32_t i = 0; i < l->head_f16; i++)
                memcpy(strip + 2 * (i * R + row), &u.head[i], 2);
        }
        if (l->head_f16)
            write_scales(l, strip + 2 * R * l->head_f16, scales);
    }
}

INLINE void pack_rows(const lm_strip_layout *l, uint8_t *dst, const uint8_t *stored, uint64_t cols, uint64_t first,
                      uint64_t last)
{
    const lm_dtype_info *t = lm_dtype_of(l->type);
    uint64_t             row_bytes = cols / t->block * t->bytes, strip_bytes = lm_strip_bytes(l, cols);

    for (uint64_t at = first; at < last; at += R) {
        uint8_t *strip = dst + at / R * strip_bytes;
        uint32_t n     = last - at < R ? (uint32_t)(last - at) : R;
        if (n < R)
            memset(strip, 0, strip_bytes);
        pack_strip(l, strip, stored + at * row_bytes, row_bytes, n, cols / 32);
    }
}

/* ---- functions per type ------------------------------------------------------------------------------------------- */

#define LAYOUT(id, word, ...) { id, __VA_ARGS__ }
#define ROW(...)              LAYOUT(__VA_ARGS__),
static const lm_strip_layout layouts[] = { LM_STRIP_LAYOUTS(ROW) };

const lm_strip_layout *lm_strip_of(lm_dtype type)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

/* The layout is a constant inside the function, so every loop over its parts has a known length. */
#define PACKER(id, word, ...)                                                                                  \
    static void pack_##word(uint8_t *dst, const uint8_t *stored, uint64_t cols, uint64_t first, uint64_t last) \
    {                                                                                                          \
        const lm_strip_layout l = LAYOUT(id, word, __VA_ARGS__);                                               \
        pack_rows(&l, dst, stored, cols, first, last);                                                         \
    }
LM_STRIP_LAYOUTS(PACKER)

uint64_t lm_strip_packed_bytes(const lm_strip_layout *l, uint64_t rows, uint64_t cols)
{
    return ((rows + R - 1) / R * lm_strip_bytes(l, cols) + 63) & ~UINT64_C(63);
}

void lm_strip_pack(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                   uint64_t first, uint64_t last)
{
#define ONE(id, word, ...) \
    case id: pack_##word(dst, stored, cols, first, last); break;
    (void)rows;
    switch ((int)l->type) {
        LM_STRIP_LAYOUTS(ONE)
    default: break;
    }
}
