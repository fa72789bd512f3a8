/* byte_units_256.h - read blocks of the types of byte_strips.h with vectors of 256 bits: the codes of 32 columns of a row, the scales of
 * eight rows. */
#ifndef LM_KERNELS_BYTE_UNITS_256_H
#define LM_KERNELS_BYTE_UNITS_256_H

#include <string.h>

#include "kernels/byte_strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"
#include "tensor/blocks.h"

#define INLINE static inline __attribute__((always_inline))

/* The entries of the codebooks with a byte per digit, eight or four in a word: 34 KB, filled when they are first needed. */
typedef struct lm_byte_books {
    uint64_t iq2_xxs[256], iq2_xs[512], iq2_s[1024], iq1[2048], sevens[128];      /* sevens: 1 or -1 by the signs in seven bits */
    uint32_t iq3_xxs[256], iq3_s[512];
} lm_byte_books;

extern lm_byte_books lm_byte_books_avx2;
void lm_byte_books_fill_avx2(void);

#define BOOK(word) lm_byte_books_avx2.word

INLINE __m256i every(int byte)
{
    return _mm256_set1_epi8((char)byte);
}

INLINE uint32_t load4(const void *p)
{
    uint32_t x;

    memcpy(&x, p, 4);
    return x;
}

INLINE uint64_t load8(const void *p)
{
    uint64_t x;

    memcpy(&x, p, 8);
    return x;
}

/* Return bytes of all ones where the bits of `bits` are set in v, zeros elsewhere. */
INLINE __m256i set_where(__m256i v, __m256i bits)
{
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bits), bits);
}

/* Spread 32 bits to bytes of zeros or ones. */
INLINE __m256i spread1(uint32_t bits)
{
    const __m256i order = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ULL);

    return set_where(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), order), bit);
}

/* Spread 32 fields of two bits to bytes: base + low where their first bit is set + high where their second bit is. */
INLINE __m256i spread2(uint64_t fields, __m256i base, int low, int high)
{
    const __m256i order = _mm256_setr_epi64x(0x0101010100000000, 0x0303030302020202, 0x0505050504040404, 0x0707070706060606);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi64x((long long)fields), order);
    __m256i one = set_where(v, _mm256_set1_epi32(0x40100401)), two = set_where(v, _mm256_set1_epi32((int)0x80200802));

    base = _mm256_add_epi8(base, _mm256_and_si256(one, every(low)));
    return _mm256_add_epi8(base, _mm256_and_si256(two, every(high)));
}

/* Return offset + v, or offset - v where the bit of `signs` is set. */
INLINE __m256i with_signs(__m256i v, uint32_t signs, int offset)
{
    __m256i minus = spread1(signs);

    return _mm256_sub_epi8(_mm256_add_epi8(_mm256_xor_si256(v, minus), every(offset)), minus);
}

INLINE __m256i four_of(const uint64_t *book, unsigned a, unsigned b, unsigned c, unsigned d)
{
    __m128i low = _mm_castpd_si128(_mm_loadh_pd(_mm_load_sd((const double *)(book + a)), (const double *)(book + b)));
    __m128i high = _mm_castpd_si128(_mm_loadh_pd(_mm_load_sd((const double *)(book + c)), (const double *)(book + d)));

    return _mm256_set_m128i(high, low);
}

INLINE __m256i eight_of(const uint32_t *book, const unsigned i[8])
{
    return _mm256_setr_epi32((int)book[i[0]], (int)book[i[1]], (int)book[i[2]], (int)book[i[3]], (int)book[i[4]], (int)book[i[5]],
                             (int)book[i[6]], (int)book[i[7]]);
}

/* LM_OFFSET_wide + v, with the signs of four fields of seven bits. */
INLINE __m256i with_sevens(__m256i v, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return _mm256_add_epi8(_mm256_sign_epi8(v, four_of(BOOK(sevens), a, b, c, d)), every(LM_OFFSET_wide));
}

INLINE __m256i with_words_sevens(__m256i v, uint32_t word)
{
    return with_sevens(v, word & 127, word >> 7 & 127, word >> 14 & 127, word >> 21 & 127);
}

/* ---- codes of columns 32 s ... 32 s + 31 of a block of a row, with the offset of the type ------------------------------------------ */

INLINE __m256i codes_iq2_xxs(const lm_iq2_xxs *b, unsigned s)
{
    const uint8_t *i = b->sub[s].index;

    return with_words_sevens(four_of(BOOK(iq2_xxs), i[0], i[1], i[2], i[3]), b->sub[s].word);
}

INLINE __m256i codes_iq2_xs(const lm_iq2_xs *b, unsigned s)
{
    uint64_t q = load8((const uint8_t *)b + offsetof(lm_iq2_xs, qs) + 8 * s);

    return with_sevens(four_of(BOOK(iq2_xs), q & 511, q >> 16 & 511, q >> 32 & 511, q >> 48 & 511), q >> 9 & 127, q >> 25 & 127,
                       q >> 41 & 127, (unsigned)(q >> 57));
}

INLINE __m256i codes_iq2_s(const lm_iq2_s *b, unsigned s)
{
    const uint8_t *q = b->qs + 4 * s;
    unsigned h = b->qh[s];

    return with_signs(four_of(BOOK(iq2_s), q[0] | (h << 8 & 0x300), q[1] | (h << 6 & 0x300), q[2] | (h << 4 & 0x300),
                              q[3] | (h << 2 & 0x300)), load4(b->signs + 4 * s), LM_OFFSET_wide);
}

INLINE __m256i codes_iq3_xxs(const lm_iq3_xxs *b, unsigned s)
{
    const uint8_t *q = b->qs + 8 * s;
    const unsigned i[8] = { q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7] };

    return with_words_sevens(eight_of(BOOK(iq3_xxs), i), b->words[s]);
}

INLINE __m256i codes_iq3_s(const lm_iq3_s *b, unsigned s)
{
    const uint8_t *q = b->qs + 8 * s;
    unsigned h = b->qh[s];
    const unsigned i[8] = { q[0] | (h << 8 & 256), q[1] | (h << 7 & 256), q[2] | (h << 6 & 256), q[3] | (h << 5 & 256),
                            q[4] | (h << 4 & 256), q[5] | (h << 3 & 256), q[6] | (h << 2 & 256), q[7] | (h << 1 & 256) };

    return with_signs(eight_of(BOOK(iq3_s), i), load4(b->signs + 4 * s), LM_OFFSET_small);
}

INLINE __m256i codes_iq1_s(const lm_iq1_s *b, unsigned s)
{
    const uint8_t *q = b->qs + 4 * s;
    unsigned h = b->qh[s];

    return _mm256_add_epi8(four_of(BOOK(iq1), q[0] | (h << 8 & 0x700), q[1] | (h << 5 & 0x700), q[2] | (h << 2 & 0x700),
                                   q[3] | (h >> 1 & 0x700)), every(LM_OFFSET_small - 7 - (h >> 14 & 2)));
}

INLINE __m256i codes_iq1_m(const lm_iq1_m *b, unsigned s)
{
    const uint8_t *q = b->qs + 4 * s;
    unsigned h = b->qh[2 * s] | (unsigned)b->qh[2 * s + 1] << 8;
    const long long first = 0x0808080808080808, second = (long long)0x8080808080808080ULL;
    const __m256i less = _mm256_setr_epi64x(first, second, first, second);
    const __m256i order = _mm256_setr_epi64x(0, 0, 0x0101010101010101, 0x0101010101010101);
    __m256i minus = set_where(_mm256_shuffle_epi8(_mm256_set1_epi32((int)h), order), less);

    minus = _mm256_sub_epi8(every(LM_OFFSET_small - 7), _mm256_and_si256(minus, every(2)));
    return _mm256_add_epi8(four_of(BOOK(iq1), q[0] | (h << 8 & 0x700), q[1] | (h << 4 & 0x700), q[2] | (h & 0x700),
                                   q[3] | (h >> 4 & 0x700)), minus);
}

/* Five ternary digits in a byte, as byte_strips.c says. */
INLINE __m256i codes_tq1_0(const lm_tq1_0 *b, unsigned s)
{
    static const uint16_t power[8][16] = {
        { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 },
        { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 },
        { 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 },
        { 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27 },
        { 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81, 81 },
        { 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3 },
        { 9, 9, 9, 9, 9, 9, 9, 9, 27, 27, 27, 27, 27, 27, 27, 27 },
        { 81, 81, 81, 81, 81, 81, 81, 81, 1, 1, 3, 3, 9, 9, 27, 27 },
    };
    const __m256i low = _mm256_set1_epi16(255), three = _mm256_set1_epi16(3), by = _mm256_loadu_si256((const __m256i *)power[s]);
    __m128i more = _mm_loadu_si128((const __m128i *)(b->qs + 32));
    __m256i q, even, odd;

    if (s < 5)
        q = _mm256_loadu_si256((const __m256i *)b->qs);
    else
        q = _mm256_set_m128i(s < 7 ? more : _mm_set1_epi32((int)load4(b->qh)), more);
    even = _mm256_and_si256(_mm256_mullo_epi16(_mm256_and_si256(q, low), by), low);
    odd = _mm256_and_si256(_mm256_mullo_epi16(_mm256_srli_epi16(q, 8), by), low);
    even = _mm256_srli_epi16(_mm256_mullo_epi16(even, three), 8);
    odd = _mm256_andnot_si256(low, _mm256_mullo_epi16(odd, three));
    return _mm256_add_epi8(_mm256_or_si256(even, odd), every(LM_OFFSET_small - 1));
}

INLINE __m256i codes_tq2_0(const lm_tq2_0 *b, unsigned s)
{
    __m256i q = _mm256_loadu_si256((const __m256i *)(b->qs + 32 * (s / 4)));

    q = _mm256_srl_epi16(q, _mm_cvtsi32_si128((int)(2 * (s % 4))));
    return _mm256_add_epi8(_mm256_and_si256(q, every(3)), every(LM_OFFSET_small - 1));
}

INLINE __m256i codes_q2_0(const lm_q2_0 *b, unsigned s)
{
    return spread2(load8(b->qs + 8 * s), every(LM_OFFSET_small - 1), 1, 2);
}

INLINE __m256i codes_q1_0(const lm_q1_0 *b, unsigned s)
{
    return _mm256_add_epi8(_mm256_and_si256(spread1(load4(b->qs + 4 * s)), every(2)), every(LM_OFFSET_small - 1));
}

/* Twice the values of E2M1; eight bytes hold the first eight columns in their low nibbles, the others in their high nibbles. */
INLINE __m256i codes_nvfp4(const lm_nvfp4 *b, unsigned s)
{
    const long long plus = 0x0c08060403020100, minus = (long long)0xf4f8fafcfdfeff00ULL;
    const __m256i table = _mm256_add_epi8(_mm256_set_epi64x(minus, plus, minus, plus), every(LM_OFFSET_small));
    __m128i q = _mm_loadu_si128((const __m128i *)(b->qs + 16 * s)), nibble = _mm_set1_epi8(15);
    __m128i low = _mm_and_si128(q, nibble), high = _mm_and_si128(_mm_srli_epi16(q, 4), nibble);

    return _mm256_shuffle_epi8(table, _mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high)));
}

/* ---- scales of a block ------------------------------------------------------------------------------------------------------------ */

/* Return 2 s + 1 of each byte. */
INLINE __m128i odd(__m128i s)
{
    return _mm_add_epi8(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}

/* Return the odd scales of eight units, one in each of eight words, for both of their halves. */
INLINE __m128i odd_twice(__m128i s)
{
    return odd(_mm_or_si128(s, _mm_slli_epi16(s, 8)));
}

/* Return sixteen odd scales from the nibbles of eight bytes, the low ones first. */
INLINE __m128i odd_nibbles(const uint8_t *p)
{
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i v = _mm_loadl_epi64((const __m128i *)p);

    return odd(_mm_unpacklo_epi8(_mm_and_si128(v, nibble), _mm_and_si128(_mm_srli_epi16(v, 4), nibble)));
}

/* Return the scales of the sixteen halves as whole numbers, a byte each: d times a factor of the type (LM_BYTE_SCALED) times these. */
INLINE __m128i scales_iq2_xxs(const lm_iq2_xxs *b)
{
    const __m128i *p = (const __m128i *)(const void *)b->sub;
    __m128i a = _mm_packs_epi32(_mm_srli_epi64(_mm_loadu_si128(p), 60), _mm_srli_epi64(_mm_loadu_si128(p + 1), 60));
    __m128i c = _mm_packs_epi32(_mm_srli_epi64(_mm_loadu_si128(p + 2), 60), _mm_srli_epi64(_mm_loadu_si128(p + 3), 60));

    return odd_twice(_mm_packus_epi16(a, c));
}

INLINE __m128i scales_iq2_xs(const lm_iq2_xs *b)
{
    return odd_nibbles(b->scales);
}

INLINE __m128i scales_iq2_s(const lm_iq2_s *b)
{
    return odd_nibbles(b->scales);
}

INLINE __m128i scales_iq3_xxs(const lm_iq3_xxs *b)
{
    const __m128i *p = (const __m128i *)(const void *)((const uint8_t *)b + offsetof(lm_iq3_xxs, words));

    return odd_twice(_mm_packs_epi32(_mm_srli_epi32(_mm_loadu_si128(p), 28), _mm_srli_epi32(_mm_loadu_si128(p + 1), 28)));
}

INLINE __m128i scales_iq3_s(const lm_iq3_s *b)
{
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i v = _mm_cvtsi32_si128((int)load4(b->scales));

    v = _mm_unpacklo_epi8(_mm_and_si128(v, nibble), _mm_and_si128(_mm_srli_epi16(v, 4), nibble));
    return odd(_mm_unpacklo_epi8(v, v));
}

INLINE __m128i scales_iq1_s(const lm_iq1_s *b)
{
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)b + offsetof(lm_iq1_s, qh)));

    return odd_twice(_mm_and_si128(_mm_srli_epi16(h, 12), _mm_set1_epi16(7)));
}

/* Four fields of three bits in each of four words. */
INLINE __m128i scales_iq1_m(const lm_iq1_m *b)
{
    const __m128i up = _mm_setr_epi16(512, 64, 8, 1, 512, 64, 8, 1), three = _mm_set1_epi16(7);
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)((const uint8_t *)b + offsetof(lm_iq1_m, scales)));
    __m128i low, high;

    v = _mm_unpacklo_epi16(v, v);
    low = _mm_and_si128(_mm_srli_epi16(_mm_mullo_epi16(_mm_unpacklo_epi32(v, v), up), 9), three);
    high = _mm_and_si128(_mm_srli_epi16(_mm_mullo_epi16(_mm_unpackhi_epi32(v, v), up), 9), three);
    return odd(_mm_packus_epi16(low, high));
}

/* ---- numbers of eight rows: d of the halves of all units of a block ---------------------------------------------------------------- */

typedef const uint8_t *const *eight_rows;

INLINE __m256 eight_f16(const uint16_t h[8])
{
    return _mm256_cvtph_ps(_mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], (short)h[4], (short)h[5], (short)h[6],
                                          (short)h[7]));
}

/* Return f16 numbers at byte `at` of each row. */
INLINE __m256 f16_at(eight_rows row, uint64_t at)
{
    uint16_t h[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        memcpy(&h[i], row[i] + at, 2);
    return eight_f16(h);
}

/* The block's scale is stored in the top nibbles of its four scale words: a product gathers them in its highest word. */
INLINE __m256 f16_iq1_m(eight_rows row, uint64_t at)
{
    uint16_t h[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        uint64_t tops = load8(row[i] + at + offsetof(lm_iq1_m, scales)) >> 12 & 0x000f000f000f000f;
        h[i] = (uint16_t)(tops * 0x0001001001001000 >> 48);
    }
    return eight_f16(h);
}

/* d[h] = of * scales[row][h]. */
INLINE void scaled(const __m128i scales[8], __m256 of, __m256 d[16])
{
    __m256i a[4], b[4], low = _mm256_set1_epi32(255);

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_set_m128i(scales[i + 4], scales[i]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        b[i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 + i] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i w = i % 2 ? _mm256_unpackhi_epi64(b[i / 2 * 2], b[i / 2 * 2 + 1]) : _mm256_unpacklo_epi64(b[i / 2 * 2], b[i / 2 * 2 + 1]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            d[4 * i + j] = _mm256_mul_ps(of, _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(w, 8 * j), low)));
    }
}

/* id, suffix of names, factor of the scales, function that reads d. The factor is a power of two, so the order of the products does not
 * matter. */
#define LM_BYTE_SCALED(X)                                                       \
    X(LM_IQ1_S,   iq1_s,   0.125f, f16_at(row, at + offsetof(lm_iq1_s, d)))     \
    X(LM_IQ1_M,   iq1_m,   0.125f, f16_iq1_m(row, at))                          \
    X(LM_IQ2_XXS, iq2_xxs, 0.125f, f16_at(row, at + offsetof(lm_iq2_xxs, d)))   \
    X(LM_IQ2_XS,  iq2_xs,  0.125f, f16_at(row, at + offsetof(lm_iq2_xs, d)))    \
    X(LM_IQ2_S,   iq2_s,   0.125f, f16_at(row, at + offsetof(lm_iq2_s, d)))     \
    X(LM_IQ3_XXS, iq3_xxs, 0.25f,  f16_at(row, at + offsetof(lm_iq3_xxs, d)))   \
    X(LM_IQ3_S,   iq3_s,   1.0f,   f16_at(row, at + offsetof(lm_iq3_s, d)))

#define X(id, word, factor, read)                                               \
    INLINE void numbers_##word(eight_rows row, uint64_t at, __m256 d[16])       \
    {                                                                           \
        __m128i scales[8];                                                      \
        _Pragma("GCC unroll 8")                                                 \
        for (int i = 0; i < 8; i++)                                             \
            scales[i] = scales_##word((const lm_##word *)(const void *)(row[i] + at)); \
        scaled(scales, _mm256_mul_ps(read, _mm256_set1_ps(factor)), d);         \
    }
LM_BYTE_SCALED(X)
#undef X

/* Types with one scale per block. */
#define X(word, halves)                                                         \
    INLINE void numbers_##word(eight_rows row, uint64_t at, __m256 d[16])       \
    {                                                                           \
        __m256 all = f16_at(row, at + offsetof(lm_##word, d));                  \
        for (int h = 0; h < (halves); h++)                                      \
            d[h] = all;                                                         \
    }
X(tq1_0, 16) X(tq2_0, 16) X(q1_0, 8) X(q2_0, 4)
#undef X

/* Half of unsigned E4M3 numbers, each of which is an f16 number with another bias. 0x7f means 0, not NaN. */
INLINE void numbers_nvfp4(eight_rows row, uint64_t at, __m256 d[16])
{
    const __m256i seven = _mm256_set1_epi32(0x7f);
    __m256i words = _mm256_setr_epi32((int)load4(row[0] + at), (int)load4(row[1] + at), (int)load4(row[2] + at), (int)load4(row[3] + at),
                                      (int)load4(row[4] + at), (int)load4(row[5] + at), (int)load4(row[6] + at), (int)load4(row[7] + at));

#pragma GCC unroll 4
    for (int h = 0; h < 4; h++) {
        __m256i e = _mm256_and_si256(_mm256_srli_epi32(words, 8 * h), _mm256_set1_epi32(0xff));
        e = _mm256_andnot_si256(_mm256_cmpeq_epi32(e, seven), _mm256_and_si256(e, seven));
        e = _mm256_slli_epi32(e, 7);
        __m128i f16 = _mm_packus_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
        d[h] = _mm256_mul_ps(_mm256_cvtph_ps(f16), _mm256_set1_ps(128.0f));
    }
}

#endif
