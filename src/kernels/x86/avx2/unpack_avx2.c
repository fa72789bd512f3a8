/* unpack_avx2.c - unpack blocks to float32, 16 elements at a time, bit-identical to the plain C functions:
 * multiply and add remain two operations. */
#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/vec_avx2.h"
#include "tensor/blocks.h"

static inline __m128i bytes16(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline __m256 half(uint16_t bits)
{
    return vec_set(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits))));
}

/* y = d * q */
static inline void put_signed(float *y, __m128i q, __m256 d)
{
    _mm256_storeu_ps(y, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)))));
}

/* y = d * q + m */
static inline void put_affine(float *y, __m128i q, __m256 d, __m256 m)
{
    __m256 low = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(q)));
    __m256 high = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(q, 8))));
    _mm256_storeu_ps(y, _mm256_add_ps(low, m));
    _mm256_storeu_ps(y + 8, _mm256_add_ps(high, m));
}

static inline __m128i low4(__m128i v)
{
    return _mm_and_si128(v, _mm_set1_epi8(15));
}

static inline __m128i high4(__m128i v)
{
    return low4(_mm_srli_epi16(v, 4));
}

/* Return bit `bit` of 16 bytes as 0 or 16. */
static inline __m128i bit_as_16(__m128i v, int bit)
{
    __m128i set = _mm_cmpeq_epi8(_mm_and_si128(v, _mm_set1_epi8((char)(1 << bit))), _mm_setzero_si128());
    return _mm_andnot_si128(set, _mm_set1_epi8(16));
}

/* Return sixteen bits of a 32-bit word, from bit 16 * part on, as bytes 0 or 16. */
static inline __m128i word_bits_as_16(uint32_t word, int part)
{
    const __m128i spread = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bits = _mm_set1_epi64x((long long)0x8040201008040201ULL);
    __m128i v = _mm_shuffle_epi8(_mm_cvtsi32_si128((int)(word >> 16 * part)), spread);
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(v, bits), bits), _mm_set1_epi8(16));
}

static void unpack_f16(float *dst, const void *src, size_t n)
{
    const uint8_t *p = src;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(bytes16(p + 2 * i)));
    if (i < n)
        lm_dtype_of(LM_F16)->unpack(dst + i, p + 2 * i, n - i);
}

static void unpack_bf16(float *dst, const void *src, size_t n)
{
    const uint8_t *p = src;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bytes16(p + 2 * i)), 16);
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(bits));
    }
    if (i < n)
        lm_dtype_of(LM_BF16)->unpack(dst + i, p + 2 * i, n - i);
}

static inline void unpack_q4_0(float *y, const lm_q4_0 *b)
{
    __m256 d = half(b->d);
    __m128i q = bytes16(b->qs), eight = _mm_set1_epi8(8);

    put_signed(y, _mm_sub_epi8(low4(q), eight), d);
    put_signed(y + 16, _mm_sub_epi8(high4(q), eight), d);
}

static inline void unpack_q4_1(float *y, const lm_q4_1 *b)
{
    __m256 d = half(b->d), m = half(b->m);
    __m128i q = bytes16(b->qs);

    put_affine(y, low4(q), d, m);
    put_affine(y + 16, high4(q), d, m);
}

static inline void unpack_q5_0(float *y, const lm_q5_0 *b)
{
    __m256 d = half(b->d);
    __m128i q = bytes16(b->qs), sixteen = _mm_set1_epi8(16);

    put_signed(y, _mm_sub_epi8(_mm_or_si128(low4(q), word_bits_as_16(b->qh, 0)), sixteen), d);
    put_signed(y + 16, _mm_sub_epi8(_mm_or_si128(high4(q), word_bits_as_16(b->qh, 1)), sixteen), d);
}

static inline void unpack_q5_1(float *y, const lm_q5_1 *b)
{
    __m256 d = half(b->d), m = half(b->m);
    __m128i q = bytes16(b->qs);

    put_affine(y, _mm_or_si128(low4(q), word_bits_as_16(b->qh, 0)), d, m);
    put_affine(y + 16, _mm_or_si128(high4(q), word_bits_as_16(b->qh, 1)), d, m);
}

static inline void unpack_q8_0(float *y, const lm_q8_0 *b)
{
    __m256 d = half(b->d);

    put_signed(y, bytes16(b->qs), d);
    put_signed(y + 16, bytes16(b->qs + 16), d);
}

static inline void unpack_iq4_nl(float *y, const lm_iq4_nl *b)
{
    __m256 d = half(b->d);
    __m128i q = bytes16(b->qs), table = bytes16(lm_iq4_values);

    put_signed(y, _mm_shuffle_epi8(table, low4(q)), d);
    put_signed(y + 16, _mm_shuffle_epi8(table, high4(q)), d);
}

static inline void unpack_iq4_xs(float *y, const lm_iq4_xs *b)
{
    __m256 d = half(b->d);
    __m128i table = bytes16(lm_iq4_values);

    for (int s = 0; s < 8; s++) {
        int scale = (b->scales_l[s / 2] >> 4 * (s % 2) & 15) | (b->scales_h >> 2 * s & 3) << 4;
        __m256 ds = _mm256_mul_ps(d, vec_set((float)(scale - 32)));
        __m128i q = bytes16(b->qs + 16 * s);
        put_signed(y + 32 * s, _mm_shuffle_epi8(table, low4(q)), ds);
        put_signed(y + 32 * s + 16, _mm_shuffle_epi8(table, high4(q)), ds);
    }
}

static inline void unpack_mxfp4(float *y, const lm_mxfp4 *b)
{
    __m256 d = vec_set(lm_e8m0_half(b->e));
    __m128i q = bytes16(b->qs), table = bytes16(lm_e2m1_values);

    put_signed(y, _mm_shuffle_epi8(table, low4(q)), d);
    put_signed(y + 16, _mm_shuffle_epi8(table, high4(q)), d);
}

static inline void unpack_q2_k(float *y, const lm_q2_k *b)
{
    __m256 d = half(b->d), dmin = half(b->dmin);

    for (int s = 0; s < 16; s++) {
        __m128i q = _mm_srli_epi16(bytes16(b->qs + 32 * (s / 8) + 16 * (s % 2)), 2 * (s % 8 / 2));
        __m256 ds = _mm256_mul_ps(d, vec_set((float)(b->scales[s] & 15)));
        __m256 ms = _mm256_mul_ps(dmin, vec_set((float)(b->scales[s] >> 4)));
        put_affine(y + 16 * s, _mm_and_si128(q, _mm_set1_epi8(3)), ds, _mm256_sub_ps(vec_set(-0.0f), ms));
    }
}

static inline void unpack_q3_k(float *y, const lm_q3_k *b)
{
    __m256 d = half(b->d);

    for (unsigned s = 0; s < 16; s++) {
        __m128i q = _mm_srli_epi16(bytes16(b->qs + 32 * (s / 8) + 16 * (s % 2)), (int)(2 * (s % 8 / 2)));
        __m128i high = _mm_srli_epi16(bit_as_16(bytes16(b->hmask + 16 * (s % 2)), (int)(s / 2)), 2);
        q = _mm_or_si128(_mm_and_si128(q, _mm_set1_epi8(3)), high);
        put_signed(y + 16 * s, _mm_sub_epi8(q, _mm_set1_epi8(4)),
                   _mm256_mul_ps(d, vec_set((float)lm_k3_scale(b->scales, s))));
    }
}

/* Compute the scale and the negated minimum of sub-block s. */
static inline void scale_min(const uint8_t scales[12], unsigned s, __m256 d, __m256 dmin, __m256 *ds,
                             __m256 *ms)
{
    uint8_t scale, min;

    lm_k4_scale_min(scales, s, &scale, &min);
    *ds = _mm256_mul_ps(d, vec_set((float)scale));
    *ms = _mm256_sub_ps(vec_set(-0.0f), _mm256_mul_ps(dmin, vec_set((float)min)));
}

static inline void unpack_q4_k(float *y, const lm_q4_k *b)
{
    __m256 d = half(b->d), dmin = half(b->dmin), ds, ms;

    for (unsigned s = 0; s < 8; s++) {
        scale_min(b->scales, s, d, dmin, &ds, &ms);
        for (int part = 0; part < 2; part++) {
            __m128i q = bytes16(b->qs + 32 * (s / 2) + 16 * part);
            put_affine(y + 32 * s + 16 * part, s % 2 ? high4(q) : low4(q), ds, ms);
        }
    }
}

static inline void unpack_q5_k(float *y, const lm_q5_k *b)
{
    __m256 d = half(b->d), dmin = half(b->dmin), ds, ms;

    for (unsigned s = 0; s < 8; s++) {
        scale_min(b->scales, s, d, dmin, &ds, &ms);
        for (int part = 0; part < 2; part++) {
            __m128i q = bytes16(b->qs + 32 * (s / 2) + 16 * part), high = bytes16(b->qh + 16 * part);
            put_affine(y + 32 * s + 16 * part,
                       _mm_or_si128(s % 2 ? high4(q) : low4(q), bit_as_16(high, (int)s)), ds, ms);
        }
    }
}

static inline void unpack_q6_k(float *y, const lm_q6_k *b)
{
    __m256 d = half(b->d);

    for (int s = 0; s < 16; s++) {
        int n = s / 8, j = s % 8 / 2, at = 16 * (s % 2);
        __m128i q = bytes16(b->ql + 64 * n + 32 * (j & 1) + at);
        __m128i high = _mm_and_si128(_mm_srli_epi16(bytes16(b->qh + 32 * n + at), 2 * j), _mm_set1_epi8(3));
        q = _mm_or_si128(j < 2 ? low4(q) : high4(q), _mm_slli_epi16(high, 4));
        put_signed(y + 16 * s, _mm_sub_epi8(q, _mm_set1_epi8(32)),
                   _mm256_mul_ps(d, vec_set((float)b->scales[s])));
    }
}

/* suffix of names, elements per block */
#define BLOCKS(X)                                                                              \
    X(q4_0, 32) X(q4_1, 32) X(q5_0, 32) X(q5_1, 32) X(q8_0, 32) X(iq4_nl, 32) X(mxfp4, 32)     \
    X(iq4_xs, 256) X(q2_k, 256) X(q3_k, 256) X(q4_k, 256) X(q5_k, 256) X(q6_k, 256)

#define X(word, elements)                                                \
    static void unpack_row_##word(float *dst, const void *src, size_t n) \
    {                                                                    \
        const lm_##word *b = src;                                        \
        for (size_t i = 0; i < n / (elements); i++)                      \
            unpack_##word(dst + i * (elements), &b[i]);                  \
    }
BLOCKS(X)
#undef X

void (*lm_unpack_avx2(lm_dtype type))(float *dst, const void *src, size_t n)
{
    switch ((int)type) {
    case LM_F16: return unpack_f16;
    case LM_BF16: return unpack_bf16;
    case LM_Q4_0: return unpack_row_q4_0;
    case LM_Q4_1: return unpack_row_q4_1;
    case LM_Q5_0: return unpack_row_q5_0;
    case LM_Q5_1: return unpack_row_q5_1;
    case LM_Q8_0: return unpack_row_q8_0;
    case LM_Q2_K: return unpack_row_q2_k;
    case LM_Q3_K: return unpack_row_q3_k;
    case LM_Q4_K: return unpack_row_q4_k;
    case LM_Q5_K: return unpack_row_q5_k;
    case LM_Q6_K: return unpack_row_q6_k;
    case LM_IQ4_NL: return unpack_row_iq4_nl;
    case LM_IQ4_XS: return unpack_row_iq4_xs;
    case LM_MXFP4: return unpack_row_mxfp4;
    default: return lm_dtype_of(type)->unpack;
    }
}
