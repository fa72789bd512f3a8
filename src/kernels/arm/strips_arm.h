/* strips_arm.h - integer arithmetic on strips of sixteen rows with NEON: quantised weights times the rows of
 * q8_rows.h. The code is shared by all instructions that multiply bytes; a file that includes it defines
 *
 *   LEVEL     the name of its kernels, "dotprod"
 *   dots()    the product itself
 *
 * One output is one lane; a strip has four vectors of four rows each. For each unit of 32 columns, in
 * ascending order: y += w's d * (sum of low bytes + 128 * sum of high bytes) + w's m * (sum of x), in units
 * of d of a group of x's blocks. The sum is multiplied by `ratio` between groups and by d at the end. No
 * order depends on the number of rows of x, and integer sums are exact in any order, so all of these levels
 * give bit-identical results. Codes are read as signed. */
#ifndef LM_KERNELS_STRIPS_ARM_H
#define LM_KERNELS_STRIPS_ARM_H

#include <arm_neon.h>
#include <string.h>

#include "kernels/arm/levels_arm.h"
#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "tensor/blocks.h"

enum { R = LM_STRIP_ROWS, PARTS = 4, TOKENS = 4, GROUP_BYTES = 128 << 10 };

#define INLINE static inline __attribute__((always_inline))

/* ---- numbers of a unit: four rows, selected by `part`
 * ------------------------------------------------------------ */

INLINE float32x4_t f16(const uint8_t *p, int part)
{
    float16x4_t h;
    memcpy(&h, p + 8 * part, sizeof h);
    return vcvt_f32_f16(h);
}

INLINE uint32x4_t bytes_u8(const uint8_t *p, int part)
{
    uint32_t four;
    memcpy(&four, p + 4 * part, sizeof four);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}

INLINE float32x4_t d_f16(const lm_unit_at u, int half, int part)
{
    (void)half;
    return f16(u.unit, part);
}

/* The scale's bits: (e - 1) << 23, or a denormal for 0 and 1. */
INLINE float32x4_t d_exponent(const lm_unit_at u, int half, int part)
{
    uint32x4_t e = bytes_u8(u.unit, part), normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000),
                                 vreinterpretq_s32_u32(vminq_u32(e, vdupq_n_u32(1))));
    (void)half;
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

INLINE float32x4_t m_f16(const lm_unit_at u, int half, int part)
{
    (void)half;
    return f16(u.unit + 2 * R, part);
}

INLINE float32x4_t m_none(const lm_unit_at u, int half, int part)
{
    (void)u, (void)half, (void)part;
    return vdupq_n_f32(0.0f);
}

/* The scale in a strip of bytes. */
INLINE float32x4_t d_f32(const lm_unit_at u, int half, int part)
{
    return vld1q_f32((const float *)(const void *)(u.unit + 64 * half + 16 * part));
}

/* ---- numbers of eight units: one or two f16, times a scale
 * -------------------------------------------------------- */

INLINE float32x4_t times_i8(const uint8_t *head, const uint8_t *p, int part)
{
    uint32_t four;
    memcpy(&four, p + 4 * part, sizeof four);
    return vmulq_f32(f16(head, part), vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))))));
}

INLINE float32x4_t times_u32(const uint8_t *head, uint32x4_t scale, int part)
{
    return vmulq_f32(f16(head, part), vcvtq_f32_u32(scale));
}

/* A signed byte per 32 or 16 columns. */
INLINE float32x4_t d_signed(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_i8(u.head, u.scales + u.of8 * R, part);
}

INLINE float32x4_t d_signed_half(const lm_unit_at u, int half, int part)
{
    return times_i8(u.head, u.scales + (2 * u.of8 + (unsigned)half) * R, part);
}

/* The first of two bytes, the second. */
INLINE float32x4_t d_first(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_u32(u.head, bytes_u8(u.scales + 2 * u.of8 * R, part), part);
}

INLINE float32x4_t m_second(const lm_unit_at u, int half, int part)
{
    (void)half;
    return times_u32(u.head + 2 * R, bytes_u8(u.scales + (2 * u.of8 + 1) * R, part), part);
}

/* The low and the high half of a byte per 16 columns. */
INLINE float32x4_t d_low(const lm_unit_at u, int half, int part)
{
    uint32x4_t both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R, part);
    return times_u32(u.head, vandq_u32(both, vdupq_n_u32(15)), part);
}

INLINE float32x4_t m_high(const lm_unit_at u, int half, int part)
{
    uint32x4_t both = bytes_u8(u.scales + (2 * u.of8 + (unsigned)half) * R, part);
    return times_u32(u.head + 2 * R, vshrq_n_u32(both, 4), part);
}

/* ---- codes of a unit: four columns of four rows
 * ------------------------------------------------------------------ */

INLINE uint8x16_t plane(const uint8_t *p, int v, int part)
{
    return vld1q_u8(p + 64 * v + 16 * part);
}

INLINE uint8x16_t nibbles(const uint8_t *p, const int v, const int part)
{
    uint8x16_t b = plane(p, v % 4, part);
    return v < 4 ? vandq_u8(b, vdupq_n_u8(15)) : vshrq_n_u8(b, 4);
}

/* Return the bit field that begins at bit `from`, moved to bit `to`. */
INLINE uint8x16_t moved(uint8x16_t b, const int from, const int to, const int mask)
{
    return vandq_u8(vshlq_u8(b, vdupq_n_s8((int8_t)(to - from))), vdupq_n_u8((uint8_t)(mask << to)));
}

INLINE uint8x16_t pairs(const uint8_t *p, const int v, const int part, const int to)
{
    return moved(plane(p, v / 4, part), 2 * (v % 4), to, 3);
}

INLINE uint8x16_t bits(const uint8_t *p, const int v, const int part, const int to)
{
    return moved(plane(p, 0, part), v, to, 1);
}

INLINE int8x16_t less(uint8x16_t codes, const int offset)
{
    return vreinterpretq_s8_u8(offset ? vsubq_u8(codes, vdupq_n_u8((uint8_t)offset)) : codes);
}

#define CODES(name, offset, expression)                                   \
    INLINE int8x16_t name(const uint8_t *p, const int v, const int part)  \
    {                                                                     \
        return less(expression, offset);                                  \
    }
CODES(c_nibbles, 0, nibbles(p, v, part))
CODES(c_nibbles_8, 8, nibbles(p, v, part))
CODES(c_nibbles_bit, 0, vorrq_u8(nibbles(p, v, part), bits(p + 16 * R, v, part, 4)))
CODES(c_nibbles_bit_16, 16, vorrq_u8(nibbles(p, v, part), bits(p + 16 * R, v, part, 4)))
CODES(c_nibbles_pair_32, 32, vorrq_u8(nibbles(p, v, part), pairs(p + 16 * R, v, part, 4)))
CODES(c_pairs, 0, pairs(p, v, part, 0))
CODES(c_pairs_bit_4, 4, vorrq_u8(pairs(p, v, part, 0), bits(p + 8 * R, v, part, 2)))
CODES(c_bytes, 0, plane(p, v, part))
CODES(c_wide, LM_OFFSET_wide, plane(p, v, part))
CODES(c_small, LM_OFFSET_small, plane(p, v, part))
#undef CODES

INLINE int8x16_t c_iq4(const uint8_t *p, const int v, const int part)
{
    return vqtbl1q_s8(vld1q_s8(lm_iq4_values), nibbles(p, v, part));
}

INLINE int8x16_t c_fp4(const uint8_t *p, const int v, const int part)
{
    return vqtbl1q_s8(vld1q_s8(lm_e2m1_values), nibbles(p, v, part));
}

/* ---- products
 * ---------------------------------------------------------------------------------------------------- */

typedef int8x16_t   code_fn(const uint8_t *p, const int v, const int part);
typedef float32x4_t number_fn(const lm_unit_at u, int half, int part);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;

/* A type, as compile-time constants for every inlined loop. */
typedef struct traits {
    code_fn   *codes;
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        halves;               /* 2: a scale per 16 columns */
    uint32_t   numbers, unit;        /* bytes of the numbers that precede the codes, of a unit */
    uint32_t   head, f16s, scales;   /* bytes of the head of eight units; of its f16 numbers; of its scales,
                                        per row */
} traits;

/* Compute the integer sums of vectors [from, to) of a unit, whose codes are at p, with the blocks at x. */
INLINE void dots(code_fn *codes, const uint8_t *p, const uint8_t *const *x, const int from, const int to,
                 const int tokens, int32x4_t sum[PARTS][TOKENS]);

/* Scales of types without a minimum are signed. */
INLINE const uint8_t *scales_of(const traits t, const uint8_t *head, uint8_t *bytes)
{
    return lm_strip_scales(head + t.f16s, t.scales, t.sign == NO_MINIMUM ? 32 : 0, bytes);
}

/* acc += w's d * (low + 128 * high) + m * (sum of x), in units of x's d. */
INLINE void finish(const traits t, const lm_unit_at u, const uint8_t *const *x, const int half,
                   const int tokens, int32x4_t sum[PARTS][TOKENS], const float32x4_t (*high)[TOKENS],
                   float32x4_t acc[TOKENS][PARTS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++) {
        float32x4_t d = t.d(u, half, part), m = t.m(u, half, part);
#pragma GCC unroll 4
        for (int j = 0; j < tokens; j++) {
            const lm_q8_block *block = (const void *)x[j];
            float32x4_t total = vdupq_n_f32(t.halves == 2 ? block->half_sum[half] : block->sum),
                        v = vcvtq_f32_s32(sum[part][j]);
            if (high)                                /* no effect where high is zero */
                v = vfmaq_f32(v, high[part][j], vdupq_n_f32(128.0f));
            acc[j][part] = vfmaq_f32(acc[j][part], v, d);
            if (t.sign == PLUS)
                acc[j][part] = vfmaq_f32(acc[j][part], m, total);
            if (t.sign == MINUS)
                acc[j][part] = vfmsq_f32(acc[j][part], m, total);
        }
    }
}

static const lm_q8_block no_high;

/* Multiply a unit with `tokens` rows of x. y: their high parts; NULL: all zero. */
INLINE void step(const traits t, const lm_unit_at u, const uint8_t *const *x, const uint8_t *const *y,
                 const int tokens, float32x4_t acc[TOKENS][PARTS])
{
#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;
        int32x4_t sum[PARTS][TOKENS];
        float32x4_t high[PARTS][TOKENS];
        if (y) {
            dots(t.codes, u.unit + t.numbers, y, from, to, tokens, sum);
            for (int part = 0; part < PARTS; part++)
                for (int j = 0; j < tokens; j++)
                    high[part][j] = vcvtq_f32_s32(sum[part][j]);
        }
        dots(t.codes, u.unit + t.numbers, x, from, to, tokens, sum);
        finish(t, u, x, half, tokens, sum, y ? high : NULL, acc);
    }
}

/* Rows of x from their first block on, and a bit mask of the blocks in which any row has high parts. */
typedef struct operands {
    const uint8_t  *x[TOKENS];
    const uint64_t *wide;
    uint64_t        cols;
} operands;

INLINE void rescale(float by, float32x4_t acc[PARTS])
{
#pragma GCC unroll 4
    for (int part = 0; part < PARTS; part++)
        acc[part] = vmulq_n_f32(acc[part], by);
}

INLINE void tile(const traits t, const operands *o, const uint8_t *p, const int tokens,
                 float32x4_t acc[TOKENS][PARTS])
{
    const uint8_t *head = p, *scales = NULL;
    uint8_t bytes[16 * R];

    for (int j = 0; j < tokens; j++)
        for (int part = 0; part < PARTS; part++)
            acc[j][part] = vdupq_n_f32(0.0f);
    for (uint64_t b = 0; b < o->cols / 32; b++) {
        const uint8_t *x[TOKENS];
        if (t.head && b % 8 == 0) {
            head = p;
            scales = scales_of(t, head, bytes);
            p += t.head;
        }
        const lm_unit_at u = { p, head, scales, (uint32_t)(b % 8) };
        for (int j = 0; j < tokens; j++) {
            x[j] = o->x[j] + 64 * b;
            if (b % LM_Q8_GROUP == 0)
                rescale(((const lm_q8_block *)(const void *)x[j])->ratio, acc[j]);
        }
        if (__builtin_expect(o->wide[b / 64] >> b % 64 & 1, 0)) {
            const uint8_t *y[TOKENS];
            for (int j = 0; j < tokens; j++) {
                const lm_q8_row row = lm_q8_row_of_low(o->x[j], o->cols);
                y[j] = (const void *)(lm_q8_is_wide(&row, b) ? &row.high[b] : &no_high);
            }
            step(t, u, x, y, tokens, acc);
        } else {
            step(t, u, x, NULL, tokens, acc);
        }
        p += t.unit;
    }
    for (int j = 0; j < tokens; j++)
        rescale(((const lm_q8_block *)(const void *)(o->x[j] + 2 * o->cols))[-1].d, acc[j]);
}

/* Store outputs o onwards of row t; the last strip may have fewer than sixteen. */
static void put(const lm_matmul_args *a, uint64_t t, uint64_t o, const float32x4_t v[PARTS])
{
    for (int part = 0; part < PARTS; part++, o += 4) {
        float lanes[4];
        vst1q_f32(lanes, v[part]);
        for (uint64_t i = 0; i < 4 && o + i < a->last; i++)
            lm_matmul_store(a, t, o + i, lanes[i]);
    }
}

/* Prepare rows [r, r + tokens) of x for a tile. */
static void take_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, operands *o)
{
    uint64_t words = (a->cols / 32 + 63) / 64, *any = a->scratch;

    for (uint64_t i = 0; i < words; i++)
        any[i] = 0;
    for (uint64_t j = 0; j < tokens; j++) {
        lm_q8_row x = lm_q8_row_at((const uint8_t *)a->x + (r + j) * a->x_stride, a->cols);
        o->x[j] = (const uint8_t *)x.low;
        for (uint64_t i = 0; i < words && x.head->wide; i++)
            any[i] |= x.wide[i];
    }
    o->wide = any;
}

typedef void tile_fn(const operands *o, const uint8_t *w, float32x4_t acc[TOKENS][PARTS]);

/* A group of strips that fits in the second-level cache is used for all rows of x before the next one. */
static void run(const lm_matmul_args *a, tile_fn *const tiles[TOKENS], uint64_t strip)
{
    uint64_t group = R * (1 + GROUP_BYTES / (strip + 1)), cuts = (a->n + TOKENS - 1) / TOKENS;
    operands o = { .cols = a->cols };
    float32x4_t y[TOKENS][PARTS];

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < cuts; i++) {
            uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
            take_rows(a, r, tokens, &o);
            for (uint64_t at = from; at < to; at += R) {
                tiles[tokens - 1](&o, (const uint8_t *)a->w + at / R * strip, y);
                for (uint64_t j = 0; j < tokens; j++)
                    put(a, r + j, at, y[j]);
            }
        }
    }
}

static uint64_t scratch_bytes(uint64_t cols)
{
    return lm_q8_mask_bytes(cols);
}

/* ---- kernel table
 * ------------------------------------------------------------------------------------------------ */

/* id, suffix of names, codes, d, m, sign of m, halves */
#define STRIPS(X)                                                             \
    X(LM_Q4_0, q4_0, c_nibbles_8, d_f16, m_none, NO_MINIMUM, 1)               \
    X(LM_Q4_1, q4_1, c_nibbles, d_f16, m_f16, PLUS, 1)                        \
    X(LM_Q5_0, q5_0, c_nibbles_bit_16, d_f16, m_none, NO_MINIMUM, 1)          \
    X(LM_Q5_1, q5_1, c_nibbles_bit, d_f16, m_f16, PLUS, 1)                    \
    X(LM_Q8_0, q8_0, c_bytes, d_f16, m_none, NO_MINIMUM, 1)                   \
    X(LM_IQ4_NL, iq4_nl, c_iq4, d_f16, m_none, NO_MINIMUM, 1)                 \
    X(LM_MXFP4, mxfp4, c_fp4, d_exponent, m_none, NO_MINIMUM, 1)              \
    X(LM_Q2_K, q2_k, c_pairs, d_low, m_high, MINUS, 2)                        \
    X(LM_Q3_K, q3_k, c_pairs_bit_4, d_signed_half, m_none, NO_MINIMUM, 2)     \
    X(LM_Q4_K, q4_k, c_nibbles, d_first, m_second, MINUS, 1)                  \
    X(LM_Q5_K, q5_k, c_nibbles_bit, d_first, m_second, MINUS, 1)              \
    X(LM_Q6_K, q6_k, c_nibbles_pair_32, d_signed_half, m_none, NO_MINIMUM, 2) \
    X(LM_IQ4_XS, iq4_xs, c_iq4, d_signed, m_none, NO_MINIMUM, 1)

#define TRAITS(word, codes, d, m, sign, halves) ((traits){ codes, d, m, sign, halves, LM_STRIP_SIZES(word) })

#define TILE(word, tokens, ...)                                                                             \
    static void tile_##word##_##tokens(const operands *o, const uint8_t *w, float32x4_t acc[TOKENS][PARTS]) \
    {                                                                                                       \
        tile(__VA_ARGS__, o, w, tokens, acc);                                                               \
    }

#define RUN(word, ...)                                    \
    TILE(word, 1, __VA_ARGS__) TILE(word, 2, __VA_ARGS__) \
    TILE(word, 3, __VA_ARGS__) TILE(word, 4, __VA_ARGS__) \
    static tile_fn *const tiles_##word[TOKENS] = {        \
        tile_##word##_1, tile_##word##_2, tile_##word##_3, tile_##word##_4 };

#define X(id, word, ...)                                                \
    RUN(word, TRAITS(word, __VA_ARGS__))                                \
    static void run_##word(const lm_matmul_args *a)                     \
    {                                                                   \
        run(a, tiles_##word, lm_strip_bytes(lm_strip_of(id), a->cols)); \
    }                                                                   \
    LM_STRIP_KERNEL(id, word, LEVEL, &lm_activation_q8_arm, R, scratch_bytes, lm_strip_pack)
STRIPS(X)
#undef X

/* The strips of byte_strips.h. */
#define X(form)                                                                                           \
    RUN(form, (traits){ c_##form, d_f32, m_none, NO_MINIMUM, 2, LM_BYTE_NUMBERS, LM_BYTE_UNIT, 0, 0, 0 }) \
    static void run_##form(const lm_matmul_args *a)                                                       \
    {                                                                                                     \
        run(a, tiles_##form, a->cols / 32 * LM_BYTE_UNIT);                                                \
    }
X(wide)
X(small)
#undef X

static uint64_t scratch_of_bytes(uint64_t cols)
{
    return lm_byte_strips_scratch(cols, scratch_bytes(cols));
}

#define NO_ROWS(id) NULL
#define X(id, word, form, ...)                                                                      \
    LM_BYTE_KERNEL(id, word, LEVEL, &lm_activation_q8_arm, lm_byte_unpack_ref, NO_ROWS, run_##form, \
                   scratch_bytes, scratch_of_bytes)
LM_BYTE_TYPES(X)
#undef X

INLINE void init_strips(lm_kernels *k)
{
#define X(id, word, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
    LM_BYTE_TYPES(X)
#undef X
}

#endif
