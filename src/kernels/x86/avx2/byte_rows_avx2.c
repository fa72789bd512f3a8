/* byte_rows_avx2.c - one row of activations times a matrix of a type of byte_strips.h: eight rows of the file
 * at a time, unpacked to registers.
 *
 * The products of the 32 codes of a row with the activations are added within each row until eight lanes hold
 * the integer sums of eight rows, of both halves of the unit. From there on, all is as in strips_256.h, in
 * the same order, so the results are bit-identical to those of strips of bytes. */
#include "kernels/q8_rows.h"
#include "kernels/x86/avx2/byte_units_256.h"

enum { ROWS = 8 };

typedef void    open_fn(const uint8_t *at, opened *o);
typedef __m256i digits_fn(const uint8_t *at, const opened *o, unsigned s);
typedef void    numbers_fn(eight_rows row, uint64_t at, __m256 d[16]);

/* A type, as compile-time constants for every inlined loop. */
typedef struct traits {
    open_fn    *open;
    digits_fn  *digits;
    numbers_fn *numbers;
    int         added;               /* to its integers, 1 or 16; 0: digits are magnitudes, and signs are
                                        applied to the activations */
    bool        small;               /* digits are below 32: sixteen bits hold the sum of eight products, else
                                        that of four */
    uint64_t    units, bytes;        /* of a block */
} traits;

/* 32 columns of eight rows. */
typedef struct unit {
    __m256i digits[ROWS], signs[ROWS];
} unit;

/* Return the sums of four rows: lanes 0 to 3 of the first half of the unit, lanes 4 to 7 of the second. */
INLINE __m256i four_sums(const __m256i v[4], bool small)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i a = _mm256_add_epi16(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    __m256i b = _mm256_add_epi16(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));

    if (small)
        return _mm256_madd_epi16(_mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                                 ones);
    a = _mm256_madd_epi16(a, ones);
    b = _mm256_madd_epi16(b, ones);
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Compute the sums of eight rows with a block of activations, of each half. */
INLINE void dot(const traits t, const unit *u, const lm_q8_block *x, __m256 sum[2])
{
    const __m256i q = _mm256_load_si256((const __m256i *)(const void *)x->q);
    __m256i v[ROWS], a, b, half[2];

#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
        v[i] = _mm256_maddubs_epi16(u->digits[i], t.added ? q : _mm256_sign_epi8(q, u->signs[i]));
    a = four_sums(v, t.small);
    b = four_sums(v + 4, t.small);
    half[0] = _mm256_permute2x128_si256(a, b, 0x20);
    half[1] = _mm256_permute2x128_si256(a, b, 0x31);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        /* -32 times the sum of the activations */
        __m256i start = _mm256_set1_epi32(x->half_start[h]);
        if (t.added)
            half[h] = _mm256_add_epi32(half[h], t.added == 1 ? _mm256_srai_epi32(start, 5)
                                                             : _mm256_srai_epi32(start, 1));
        sum[h] = _mm256_cvtepi32_ps(half[h]);
    }
}

INLINE __m256 rescaled(__m256 acc, const float *by)
{
    return _mm256_mul_ps(acc, _mm256_broadcast_ss(by));
}

/* The products of a block of high bytes, before they are multiplied by their scales. */
typedef struct high {
    __m256 sum[2], d[2];
} high;

/* Return acc plus the products of the high bytes of x. */
INLINE __m256 add_high_bytes(const high *h, const lm_q8_row *x, __m256 acc)
{
    for (uint32_t i = 0; i < x->head->wide; i++, h++) {
        const __m256 by = _mm256_set1_ps(x->low[x->listed[i]].d * 128.0f);
        acc = _mm256_fmadd_ps(_mm256_mul_ps(h->sum[0], by), h->d[0], acc);
        acc = _mm256_fmadd_ps(_mm256_mul_ps(h->sum[1], by), h->d[1], acc);
    }
    return acc;
}

/* Return the products of eight rows with x. Units whose block has high bytes are unpacked once for both:
 * `kept` has room for the high products of all blocks. */
INLINE __m256 products(const traits t, eight_rows row, const lm_q8_row *x, uint64_t cols, high *kept)
{
    const uint64_t blocks = cols / 32 / t.units;
    high *next = kept;
    __m256 acc = _mm256_setzero_ps(), d[16], sum[2];
    opened o[ROWS];

    for (uint64_t k = 0, u = 0; k < blocks; k++) {
        prefetch(row[0] + (blocks + k) * ROWS * t.bytes, ROWS * t.bytes);
        t.numbers(row, k * t.bytes, d);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++)
            t.open(row[i] + k * t.bytes, &o[i]);
        for (unsigned s = 0; s < t.units; s++, u++) {
            unit now;
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                now.digits[i] = t.digits(row[i] + k * t.bytes, &o[i], s);
                if (!t.added)
                    now.signs[i] = _mm256_or_si256(spread1(o[i].signs[s]), every(1));
            }
            if (u % LM_Q8_GROUP == 0)
                acc = rescaled(acc, &x->low[u].ratio);
            dot(t, &now, &x->low[u], sum);
            acc = _mm256_fmadd_ps(sum[0], d[2 * s], acc);
            acc = _mm256_fmadd_ps(sum[1], d[2 * s + 1], acc);
            if (lm_q8_is_wide(x, u)) {
                dot(t, &now, &x->high[u], next->sum);
                next->d[0] = d[2 * s];
                next++->d[1] = d[2 * s + 1];
            }
        }
    }
    return add_high_bytes(kept, x, rescaled(acc, &x->low[cols / 32 - 1].d));
}

INLINE void all_rows(const traits t, const lm_matmul_args *a, uint64_t to)
{
    const lm_q8_row x = lm_q8_row_at(a->x, a->cols);
    const uint64_t stride = a->cols / 32 / t.units * t.bytes;

    for (uint64_t o = a->first; o < to; o += ROWS) {
        const uint8_t *row[ROWS];
        float y[ROWS];
        for (uint64_t i = 0; i < ROWS; i++)
            row[i] = (const uint8_t *)a->w + (o + i) * stride;
        _mm256_storeu_ps(y, products(t, row, &x, a->cols, a->scratch));
        for (uint64_t i = 0; i < ROWS; i++)
            lm_matmul_store(a, 0, o + i, y[i]);
    }
}

#define X(id, word, form, units, added)                                                     \
    INLINE void open_at_##word(const uint8_t *at, opened *o)                                \
    {                                                                                       \
        open_##word((const lm_##word *)(const void *)at, o);                                \
    }                                                                                       \
    INLINE __m256i digits_at_##word(const uint8_t *at, const opened *o, unsigned s)         \
    {                                                                                       \
        return digits_##word((const lm_##word *)(const void *)at, o, s);                    \
    }                                                                                       \
    static void rows_##word(const lm_matmul_args *a, uint64_t to)                           \
    {                                                                                       \
        const traits t = { open_at_##word, digits_at_##word, numbers_##word, added,         \
                           LM_OFFSET_##form == LM_OFFSET_small, units, sizeof(lm_##word) }; \
        all_rows(t, a, to);                                                                 \
    }
LM_BYTE_TYPES(X)
#undef X

lm_byte_rows *lm_byte_rows_avx2(lm_dtype type)
{
    lm_byte_books_fill_avx2();
    switch ((int)type) {
#define X(id, word, ...) \
    case id: return rows_##word;
        LM_BYTE_TYPES(X)
#undef X
    default: return NULL;
    }
}
