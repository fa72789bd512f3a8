/* numbers.c - the types with one number per element, and conversions of the two 16-bit floats. */
#include <string.h>

#include "tensor/codecs.h"
#include "tensor/dtype.h"

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Shifted to their places in a float, the bits have an exponent that is 112 too small; the product is exact,
 * even for subnormal numbers. A signalling NaN becomes quiet, as IEEE 754 requires and hardware conversions
 * do. */
static inline float from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = (uint32_t)(h & 0x7fffu) << 13;

    if (magnitude >= 31u << 23)
        return float_of(sign | 0x7f800000u | magnitude | (magnitude > 31u << 23 ? 0x400000u : 0));
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));
}

float lm_f16_to_f32(uint16_t h) { return from_half(h); }

uint16_t lm_f32_to_f16(float f)
{
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u)                 /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u)                  /* below 2^-14: adding 0.5 rounds to multiples of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

float lm_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t lm_f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float lm_rounded_to_bf16(float f)
{
    return lm_bf16_to_f32(lm_f32_to_bf16(f));
}

void lm_unpack_f32(float *dst, const void *src, size_t n)
{
    if (n)
        memcpy(dst, src, n * sizeof *dst);
}

void lm_pack_f32(void *dst, const float *src, size_t n)
{
    if (n)
        memcpy(dst, src, n * sizeof *src);
}

/* Copy one element at a time with memcpy: the stored bytes need not be aligned. */
#define UNPACK(name, type, expression)                              \
    void lm_unpack_##name(float *dst, const void *src, size_t n)    \
    {                                                               \
        const char *p = src;                                        \
        for (size_t i = 0; i < n; i++) {                            \
            type x;                                                 \
            memcpy(&x, p + i * sizeof x, sizeof x);                 \
            dst[i] = expression;                                    \
        }                                                           \
    }

#define PACK(name, type, expression)                                \
    void lm_pack_##name(void *dst, const float *src, size_t n)      \
    {                                                               \
        char *p = dst;                                              \
        for (size_t i = 0; i < n; i++) {                            \
            type x = expression;                                    \
            memcpy(p + i * sizeof x, &x, sizeof x);                 \
        }                                                           \
    }

UNPACK(f16, uint16_t, from_half(x))
UNPACK(bf16, uint16_t, lm_bf16_to_f32(x))
UNPACK(f64, double, (float)x)
UNPACK(i8, int8_t, (float)x)
UNPACK(i16, int16_t, (float)x)
UNPACK(i32, int32_t, (float)x)
UNPACK(i64, int64_t, (float)x)
UNPACK(u8, uint8_t, (float)x)
UNPACK(u16, uint16_t, (float)x)
UNPACK(u32, uint32_t, (float)x)
UNPACK(u64, uint64_t, (float)x)
UNPACK(bool, uint8_t, x ? 1.0f : 0.0f)

PACK(f16, uint16_t, lm_f32_to_f16(src[i]))
PACK(bf16, uint16_t, lm_f32_to_bf16(src[i]))
PACK(f64, double, (double)src[i])
