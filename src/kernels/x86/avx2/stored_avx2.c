/* stored_avx2.c - one row of activations times a matrix as it is stored, without packing it: eight rows of
 * the file at a time.
 *
 * A register holds sixteen codes of row j and sixteen of row j + 4. Their products with the same sixteen
 * activations are added within each row until eight lanes hold the integer sums of eight rows. From there on,
 * all is as in strips_256.h, in the same order, so the results are bit-identical to those of the packed
 * matrix. Rows are read once, from memory; the next eight are prefetched meanwhile. */
#include "kernels/q8_rows.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/rows_256.h"

enum { ROWS = 8 };

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;
/* CODES: not negative; SIGNED_BYTES: two products exceed sixteen bits */
typedef enum product { CODES, SIGNED, SIGNED_BYTES } product;

/* A type, as compile-time constants for every inlined loop. */
typedef struct traits {
    lm_dtype type;
    uint64_t bytes;                  /* of a block */
    bool     k;                      /* a block has eight units; else one */
    int      halves;                 /* 2: a scale per sixteen columns */
    minimum  sign;
    product  product;
    int      offset;                 /* of the codes */
} traits;

/* Eight rows at one block, and, for a block of eight units, its numbers. */
typedef struct blocks {
    stored_rows at;
    __m256      d, m;
    _Alignas(32) uint8_t scales[16][R];
} blocks;

/* ---- numbers of eight rows
 * ---------------------------------------------------------------------------------------- */

INLINE __m256 f16_at(const stored_rows r, uint64_t at)
{
    __m128i v = _mm_setzero_si128();
    uint16_t x[ROWS];

#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
        memcpy(&x[i], r.p + (uint64_t)i * r.stride + at, 2);
    v = _mm_setr_epi16((short)x[0], (short)x[1], (short)x[2], (short)x[3], (short)x[4], (short)x[5],
                       (short)x[6], (short)x[7]);
    return _mm256_cvtph_ps(v);
}

/* As d_exponent in codes_256.h. */
INLINE __m256 exponents(const stored_rows r)
{
    __m256i e = _mm256_setr_epi32(r.p[0], r.p[r.stride], r.p[2 * r.stride], r.p[3 * r.stride],
                                  r.p[4 * r.stride], r.p[5 * r.stride], r.p[6 * r.stride], r.p[7 * r.stride]);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);

    return _mm256_castsi256_ps(
        _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

INLINE __m256i scale_bytes(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

/* Read the numbers of blocks of eight units. */
INLINE void open_block(const traits t, blocks *b)
{
    uint64_t d = t.type == LM_Q2_K ? offsetof(lm_q2_k, d) : t.type == LM_Q3_K ? offsetof(lm_q3_k, d) :
                 t.type == LM_Q6_K ? offsetof(lm_q6_k, d) : 0;

    put_scales(t.type, b->at, b->scales[0]);
    b->d = f16_at(b->at, d);
    if (t.sign != NO_MINIMUM)
        b->m = f16_at(b->at, d + 2);
}

INLINE __m256 d_of(const traits t, const blocks *b, const int s, const int half)
{
    if (!t.k)
        return t.type == LM_MXFP4 ? exponents(b->at) : f16_at(b->at, 0);
    __m256i scale = scale_bytes(b->scales[t.halves == 2 || t.sign != NO_MINIMUM ? 2 * s + half : s]);
    if (t.type == LM_Q6_K)
        scale = _mm256_srai_epi32(_mm256_slli_epi32(scale, 24), 24);
    if (t.type == LM_Q2_K)
        scale = _mm256_and_si256(scale, _mm256_set1_epi32(15));
    if (t.type == LM_Q3_K || t.type == LM_IQ4_XS)
        scale = _mm256_sub_epi32(scale, _mm256_set1_epi32(32));
    return _mm256_mul_ps(b->d, _mm256_cvtepi32_ps(scale));
}

INLINE __m256 m_of(const traits t, const blocks *b, const int s, const int half)
{
    if (!t.k)
        return f16_at(b->at, 2);
    __m256i scale = t.type == LM_Q2_K ? _mm256_srli_epi32(scale_bytes(b->scales[2 * s + half]), 4)
                                      : scale_bytes(b->scales[2 * s + 1]);
    return _mm256_mul_ps(b->m, _mm256_cvtepi32_ps(scale));
}

/* ---- codes of two rows
 * -------------------------------------------------------------------------------------------- */

/* Sixteen bytes of row j, and of row j + 4. */
INLINE __m256i two(const stored_rows r, const int j, uint64_t at)
{
    const uint8_t *p = r.p + (uint64_t)j * r.stride + at;

    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
                                   _mm_loadu_si128((const void *)(p + 4 * r.stride)), 1);
}

/* Return the bits of `mask` that begin at bit `from`, moved to bit `to`. */
INLINE __m256i field(__m256i b, const int from, const int to, const int mask)
{
    b = from > to ? _mm256_srli_epi16(b, from - to) : from < to ? _mm256_slli_epi16(b, to - from) : b;
    return _mm256_and_si256(b, _mm256_set1_epi8((char)(mask << to)));
}

INLINE __m256i nibble(__m256i b, const bool high)
{
    return field(b, high ? 4 : 0, 0, 15);
}

/* The fifth bits of a block of 32: bit c of a word belongs to column c. */
INLINE __m256i fifth(const stored_rows r, const int j, uint64_t at, const int half)
{
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i byte = half ? _mm256_setr_epi64x(0x0202020202020202, 0x0303030303030303, 0x0202020202020202,
                                                   0x0303030303030303)
                              : _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
    const uint8_t *p = r.p + (uint64_t)j * r.stride + at;
    int32_t low, high;

    memcpy(&low, p, 4);
    memcpy(&high, p + 4 * r.stride, 4);
    __m256i words_of = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_cvtsi32_si128(low)),
                                               _mm_cvtsi32_si128(high), 1);
    __m256i set = _mm256_and_si256(_mm256_shuffle_epi8(words_of, byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(set, bit), _mm256_set1_epi8(16));
}

INLINE __m256i looked_up(const int8_t *values, __m256i code)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)values)), code);
}

/* Return the codes of columns [16 half, 16 half + 16) of unit s of rows j and j + 4. */
INLINE __m256i codes(const traits t, const stored_rows r, const int s, const int half, const int j)
{
    const uint64_t at = 16 * (uint64_t)half, low_bits = 32 * (uint64_t)(s / 4) + at;

    switch ((int)t.type) {
    case LM_Q4_0: return nibble(two(r, j, offsetof(lm_q4_0, qs)), half);
    case LM_Q4_1: return nibble(two(r, j, offsetof(lm_q4_1, qs)), half);
    case LM_Q5_0:
        return _mm256_or_si256(nibble(two(r, j, offsetof(lm_q5_0, qs)), half),
                               fifth(r, j, offsetof(lm_q5_0, qh), half));
    case LM_Q5_1:
        return _mm256_or_si256(nibble(two(r, j, offsetof(lm_q5_1, qs)), half),
                               fifth(r, j, offsetof(lm_q5_1, qh), half));
    case LM_Q8_0:   return two(r, j, offsetof(lm_q8_0, qs) + at);
    case LM_IQ4_NL: return looked_up(lm_iq4_values, nibble(two(r, j, offsetof(lm_iq4_nl, qs)), half));
    case LM_IQ4_XS:
        return looked_up(lm_iq4_values, nibble(two(r, j, offsetof(lm_iq4_xs, qs) + 16 * (uint64_t)s), half));
    case LM_MXFP4:  return looked_up(lm_e2m1_values, nibble(two(r, j, offsetof(lm_mxfp4, qs)), half));
    case LM_Q2_K:   return field(two(r, j, offsetof(lm_q2_k, qs) + low_bits), 2 * (s % 4), 0, 3);
    case LM_Q3_K:
        return _mm256_or_si256(field(two(r, j, offsetof(lm_q3_k, qs) + low_bits), 2 * (s % 4), 0, 3),
                               field(two(r, j, offsetof(lm_q3_k, hmask) + at), s, 2, 1));
    case LM_Q4_K: return nibble(two(r, j, offsetof(lm_q4_k, qs) + 32 * (uint64_t)(s / 2) + at), s % 2);
    case LM_Q5_K:
        return _mm256_or_si256(nibble(two(r, j, offsetof(lm_q5_k, qs) + 32 * (uint64_t)(s / 2) + at), s % 2),
                               field(two(r, j, offsetof(lm_q5_k, qh) + at), s, 4, 1));
    default:                                         /* Q6_K */
        return _mm256_or_si256(
            nibble(two(r, j, offsetof(lm_q6_k, ql) + 32 * (uint64_t)(s / 4 * 2 + s % 2) + at), s % 4 / 2),
            field(two(r, j, offsetof(lm_q6_k, qh) + low_bits), 2 * (s % 4), 4, 3));
    }
}

/* ---- products
 * ------------------------------------------------------------------------------------------------------ */

/* Return products with sixteen activations, added in pairs. */
INLINE __m256i products(const traits t, __m256i w, __m256i x)
{
    if (t.product == CODES)
        return _mm256_maddubs_epi16(w, x);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* Return the sums of rows j and j + 4 with the columns of one half, or, if `half` is negative, of both: four
 * lanes for each row. */
INLINE __m256i lanes_of(const traits t, const stored_rows r, const __m256i x[2], const int s, const int half,
                        const int j)
{
    const __m256i ones = _mm256_set1_epi16(1);

    if (half >= 0)
        return _mm256_madd_epi16(products(t, codes(t, r, s, half, j), x[half]), ones);
    __m256i a = products(t, codes(t, r, s, 0, j), x[0]), b = products(t, codes(t, r, s, 1, j), x[1]);
    if (t.product == SIGNED_BYTES)
        return _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    return _mm256_madd_epi16(_mm256_add_epi16(a, b), ones);
}

/* Return minus the offset times the sum of the activations: as start_of in strips_256.h. */
INLINE __m256i start_of(const traits t, const lm_q8_block *x, const int half)
{
    if (!t.offset)
        return _mm256_setzero_si256();
    return _mm256_set1_epi32(half >= 0 ? x->half_start[half] / (32 / t.offset) : x->start / (128 / t.offset));
}

/* Return the integer sums of eight rows. */
INLINE __m256i dot(const traits t, const stored_rows r, const lm_q8_block *x, const int s, const int half)
{
    const __m256i q[2] = { _mm256_broadcastsi128_si256(_mm_load_si128((const void *)x->q)),
                           _mm256_broadcastsi128_si256(_mm_load_si128((const void *)(x->q + 16))) };
    __m256i v[4];

#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        v[j] = lanes_of(t, r, q, s, half, j);
    __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    __m256i sum = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    return _mm256_add_epi32(sum, start_of(t, x, half));
}

/* Return acc plus the products of unit s. */
INLINE __m256 step(const traits t, const blocks *b, const lm_q8_block *x, const int s, __m256 acc)
{
#pragma GCC unroll 2
    for (int h = 0; h < t.halves; h++) {
        const int half = t.halves == 2 ? h : -1;
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot(t, b->at, x, s, half)), d_of(t, b, s, h), acc);
        __m256 total = _mm256_broadcast_ss(half >= 0 ? &x->half_sum[h] : &x->sum);
        if (t.sign == PLUS)
            acc = _mm256_fmadd_ps(m_of(t, b, s, h), total, acc);
        if (t.sign == MINUS)
            acc = _mm256_fnmadd_ps(m_of(t, b, s, h), total, acc);
    }
    return acc;
}

INLINE __m256 high_step(const traits t, const blocks *b, const lm_q8_block *x, const int s, __m256 d,
                        __m256 acc)
{
#pragma GCC unroll 2
    for (int h = 0; h < t.halves; h++) {
        __m256 sum = _mm256_cvtepi32_ps(dot(t, b->at, x, s, t.halves == 2 ? h : -1));
        acc = _mm256_fmadd_ps(_mm256_mul_ps(sum, d), d_of(t, b, s, h), acc);
    }
    return acc;
}

/* Return acc plus the products of the high bytes of x. */
INLINE __m256 add_high_bytes(const traits t, const stored_rows r, const lm_q8_row *x, __m256 acc)
{
    for (uint32_t i = 0; i < x->head->wide; i++) {
        const uint64_t at = x->listed[i];
        const __m256 d = _mm256_set1_ps(x->low[at].d * 128.0f);
        blocks b = { .at = { r.p + (t.k ? at / 8 : at) * t.bytes, r.stride } };
        if (!t.k) {
            acc = high_step(t, &b, &x->high[at], 0, d, acc);
            continue;
        }
        open_block(t, &b);
#pragma GCC unroll 8
        for (unsigned s = 0; s < 8; s++)
            if (at % 8 == s)
                acc = high_step(t, &b, &x->high[at], (int)s, d, acc);
    }
    return acc;
}

/* Prefetch `bytes` more bytes of the rows that follow, which are next to each other in memory. */
INLINE const uint8_t *rows_ahead(const uint8_t *next, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 64)
        ahead(next + i);
    return next + bytes;
}

/* ---- floats
 * -------------------------------------------------------------------------------------------------------- */

/* Return one or the other of the two columns of sixteen bits that are in the words of eight rows. */
INLINE __m256 half_of(const lm_dtype type, words pair, const bool odd)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));

    if (type == LM_BF16)
        return _mm256_castsi256_ps((__m256i)(odd ? pair & 0xffff0000u : pair << 16));
    __m256i halves = _mm256_permute4x64_epi64(_mm256_shuffle_epi8((__m256i)pair, order), 0xd8);
    return _mm256_cvtph_ps(odd ? _mm256_extracti128_si256(halves, 1) : _mm256_castsi256_si128(halves));
}

/* Return sum plus the products of the first `n` columns that are in sixteen bytes of each row. */
INLINE __m256 add_columns(const lm_dtype type, const stored_rows r, uint64_t at, const float *x,
                          const uint64_t n, __m256 sum)
{
    words w[4];

    four_words(r, at, w);
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++)
        if (k < n && (k < 4 || type != LM_F32)) {
            __m256 column = type == LM_F32 ? _mm256_castsi256_ps((__m256i)w[k % 4])
                                           : half_of(type, w[k / 2], k % 2);
            sum = _mm256_fmadd_ps(column, _mm256_broadcast_ss(x + k), sum);
        }
    return sum;
}

/* Compute the sums of one part of the columns of eight rows, from `from` on, or of two parts at once: a sum
 * waits for the addition before it, so two take little longer than one. */
INLINE void sums_of(const lm_dtype type, const uint32_t size, const int parts, const stored_rows r,
                    const float *x, uint64_t from, uint64_t n, __m256 sum[2])
{
    const uint64_t many = 16 / size;
    const uint8_t *next = r.p + ROWS * (r.stride + from * size);
    uint64_t k = 0;

    sum[0] = sum[1] = _mm256_setzero_ps();
    for (; k + many <= n; k += many) {
        next = rows_ahead(next, 16 * ROWS * (unsigned)parts);
#pragma GCC unroll 2
        for (int i = 0; i < parts; i++) {
            uint64_t at = from + LM_FLOAT_COLUMNS * (unsigned)i + k;
            sum[i] = add_columns(type, r, at * size, x + at, many, sum[i]);
        }
    }
    if (k < n) {
        uint8_t rest[ROWS][16] = { 0 };
        for (uint64_t i = 0; i < ROWS; i++)
            memcpy(rest[i], r.p + i * r.stride + (from + k) * size, (n - k) * size);
        sum[0] = add_columns(type, (stored_rows){ rest[0], 16 }, 0, x + from + k, n - k, sum[0]);
    }
}

/* Return the products of eight rows with x, in the order of float_strips.h. */
INLINE __m256 eight_float_rows(const lm_dtype type, const uint32_t size, const stored_rows r, const float *x,
                               uint64_t cols)
{
    enum { PART = LM_FLOAT_COLUMNS };
    __m256 total = _mm256_setzero_ps(), sum[2];
    uint64_t from = 0;

    for (; cols - from >= 2 * PART; from += 2 * PART) {
        sums_of(type, size, 2, r, x, from, PART, sum);
        total = _mm256_add_ps(from ? _mm256_add_ps(total, sum[0]) : sum[0], sum[1]);
    }
    for (; from < cols; from += PART) {
        sums_of(type, size, 1, r, x, from, cols - from < PART ? cols - from : PART, sum);
        total = from ? _mm256_add_ps(total, sum[0]) : sum[0];
    }
    return total;
}

/* ---- blocks of eight rows
 * ------------------------------------------------------------------------------------------ */

INLINE __m256 rescaled(__m256 acc, const float *by)
{
    return _mm256_mul_ps(acc, _mm256_broadcast_ss(by));
}

/* Return the products of eight rows with x. */
INLINE __m256 eight_rows(const traits t, const stored_rows r, const lm_q8_row *x, uint64_t cols)
{
    const uint64_t units = t.k ? 8 : 1;
    const lm_q8_block *q = x->low;
    const uint8_t *next = r.p + ROWS * r.stride;
    __m256 acc = _mm256_setzero_ps();
    blocks b = { .at = r };

    for (uint64_t u = 0; u < cols / 32; u += units, b.at.p += t.bytes) {
        next = rows_ahead(next, ROWS * t.bytes);
        if (!t.k) {
            acc = step(t, &b, &q[u], 0, u % LM_Q8_GROUP ? acc : rescaled(acc, &q[u].ratio));
            continue;
        }
        open_block(t, &b);
#pragma GCC unroll 8
        for (int s = 0; s < 8; s++)
            acc = step(t, &b, &q[u + (unsigned)s], s,
                       s % LM_Q8_GROUP ? acc : rescaled(acc, &q[u + (unsigned)s].ratio));
    }
    acc = rescaled(acc, &q[cols / 32 - 1].d);
    return x->head->wide ? add_high_bytes(t, r, x, acc) : acc;
}

/* ---- functions per type
 * -------------------------------------------------------------------------------------------- */

INLINE void put(const lm_matmul_args *a, uint64_t o, __m256 v)
{
    float y[ROWS];

    _mm256_storeu_ps(y, v);
    for (uint64_t i = 0; i < ROWS; i++)
        lm_matmul_store(a, 0, o + i, y[i]);
}

INLINE stored_rows rows_at(const lm_matmul_args *a, uint64_t o, uint64_t row_bytes)
{
    return (stored_rows){ (const uint8_t *)a->w + o * row_bytes, row_bytes };
}

INLINE void all_rows(const traits t, const lm_matmul_args *a, uint64_t row_bytes, uint64_t to)
{
    const lm_q8_row x = lm_q8_row_at(a->x, a->cols);

    for (uint64_t o = a->first; o < to; o += ROWS)
        put(a, o, eight_rows(t, rows_at(a, o, row_bytes), &x, a->cols));
}

/* id, suffix of names, halves, sign of m, product, offset */
#define STORED(X)                                         \
    X(LM_Q4_0,   q4_0,   1, NO_MINIMUM, CODES, 8)         \
    X(LM_Q4_1,   q4_1,   1, PLUS,       CODES, 0)         \
    X(LM_Q5_0,   q5_0,   1, NO_MINIMUM, CODES, 16)        \
    X(LM_Q5_1,   q5_1,   1, PLUS,       CODES, 0)         \
    X(LM_Q8_0,   q8_0,   1, NO_MINIMUM, SIGNED_BYTES, 0)  \
    X(LM_IQ4_NL, iq4_nl, 1, NO_MINIMUM, SIGNED_BYTES, 0)  \
    X(LM_IQ4_XS, iq4_xs, 1, NO_MINIMUM, SIGNED_BYTES, 0)  \
    X(LM_MXFP4,  mxfp4,  1, NO_MINIMUM, SIGNED, 0)        \
    X(LM_Q2_K,   q2_k,   2, MINUS,      CODES, 0)         \
    X(LM_Q3_K,   q3_k,   2, NO_MINIMUM, CODES, 4)         \
    X(LM_Q4_K,   q4_k,   1, MINUS,      CODES, 0)         \
    X(LM_Q5_K,   q5_k,   1, MINUS,      CODES, 0)         \
    X(LM_Q6_K,   q6_k,   2, NO_MINIMUM, CODES, 32)

#define X(id, word, halves, sign, product, offset)                                                         \
    void lm_stored_##word##_avx2(const lm_matmul_args *a, uint64_t row_bytes, uint64_t to)                 \
    {                                                                                                      \
        all_rows((traits){ id, sizeof(lm_##word), LM_HEAD_##word != 0, halves, sign, product, offset }, a, \
                 row_bytes, to);                                                                           \
    }
STORED(X)
#undef X

#define X(id, word, size)                                                                   \
    void lm_stored_##word##_avx2(const lm_matmul_args *a, uint64_t row_bytes, uint64_t to)  \
    {                                                                                       \
        for (uint64_t o = a->first; o < to; o += ROWS)                                      \
            put(a, o, eight_float_rows(id, size, rows_at(a, o, row_bytes), a->x, a->cols)); \
    }
X(LM_F32, f32, 4)
X(LM_F16, f16, 2)
X(LM_BF16, bf16, 2)
