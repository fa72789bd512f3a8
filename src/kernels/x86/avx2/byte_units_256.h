/* byte_units_256.h - read blocks of the types of byte_strips.h with vectors of 256 bits: the codes of 32
 * columns of a row, the scales of eight rows. */
#ifndef LM_KERNELS_BYTE_UNITS_256_H
#define LM_KERNELS_BYTE_UNITS_256_H

#include <string.h>

#include "kernels/byte_strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"
#include "tensor/blocks.h"

#define INLINE static inline __attribute__((always_inline))

/* The entries of the codebooks with a byte per digit, eight or four in a word: 33 KB, filled when they are
 * first needed. */
typedef struct lm_byte_books {
    uint64_t iq2_xxs[256], iq2_xs[512], iq2_s[1024], iq1[2048];
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

INLINE __m128i load128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Prefetch `bytes` of the rows that follow those at hand: a block of each is too short for the processor to
 * fetch it in time. */
INLINE void prefetch(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
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

/* Spread 32 fields of two bits to bytes. */
INLINE __m256i spread2(uint64_t fields)
{
    const __m256i order = _mm256_setr_epi64x(0x0101010100000000, 0x0303030302020202, 0x0505050504040404,
                                             0x0707070706060606);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi64x((long long)fields), order);
    __m256i one = set_where(v, _mm256_set1_epi32(0x40100401)),
            two = set_where(v, _mm256_set1_epi32((int)0x80200802));

    return _mm256_or_si256(_mm256_and_si256(one, every(1)), _mm256_and_si256(two, every(2)));
}

/* Return offset + v, or offset - v where the bit of `signs` is set. */
INLINE __m256i with_signs(__m256i v, uint32_t signs, int offset)
{
    __m256i minus = spread1(signs);

    return _mm256_sub_epi8(_mm256_add_epi8(_mm256_xor_si256(v, minus), every(offset)), minus);
}

/* Return an entry of eight or four digits, as often as a vector has room for it. Such loads and blends need
 * no shuffles, of which processors do one or two per cycle. */
INLINE __m256i entry(uint64_t digits)
{
    return _mm256_set1_epi64x((long long)digits);
}

INLINE __m256i entry4(uint32_t digits)
{
    return _mm256_set1_epi32((int)digits);
}

/* Return the entries at i[0] … i[3]. */
#define FOUR_OF(book, i)                                                                                    \
    _mm256_blend_epi32(_mm256_blend_epi32(entry((book)[(i)[0]]), entry((book)[(i)[1]]), 0x0c),              \
                       _mm256_blend_epi32(entry((book)[(i)[2]]), entry((book)[(i)[3]]), 0xc0), 0xf0)

#define TWO_OF(book, i, second) _mm256_blend_epi32(entry4((book)[(i)[0]]), entry4((book)[(i)[1]]), second)

/* Return the entries at i[0] … i[7]. */
#define EIGHT_OF(book, i)                                                                                  \
    _mm256_blend_epi32(_mm256_blend_epi32(TWO_OF(book, i, 0x02), TWO_OF(book, (i) + 2, 0x08), 0x0c),       \
                       _mm256_blend_epi32(TWO_OF(book, (i) + 4, 0x20), TWO_OF(book, (i) + 6, 0x80), 0xc0), \
                       0xf0)

/* ---- what is computed once for all units of a block of a row
 * ------------------------------------------------------------------------ */

/* The signs of each unit's columns, a bit each; the indices of its entries in the codebook, four or eight of
 * them. */
typedef struct opened {
    uint32_t signs[8];
    uint16_t index[64];
} opened;

INLINE void put(void *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)to, v);
}

/* Set bit 7 of bytes whose other bits have odd parity. */
INLINE __m256i even_parity(__m256i v)
{
    const long long low = (long long)0x8000008000808000ULL, high = 0x0080800080000080;
    const __m256i odd = _mm256_set_epi64x(high, low, high, low);
    __m256i nibble = _mm256_and_si256(_mm256_xor_si256(v, _mm256_srli_epi16(v, 4)), every(15));

    return _mm256_or_si256(v, _mm256_shuffle_epi8(odd, nibble));
}

/* The signs of four fields of seven bits in each word. */
INLINE __m256i four_sevens(__m256i w)
{
    __m256i a = _mm256_and_si256(w, _mm256_set1_epi32(127)),
            b = _mm256_and_si256(_mm256_slli_epi32(w, 1), _mm256_set1_epi32(127 << 8));
    __m256i c = _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_set1_epi32(127 << 16));
    __m256i d = _mm256_and_si256(_mm256_slli_epi32(w, 3), _mm256_set1_epi32(127 << 24));

    return even_parity(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
}

/* Return sixteen bytes and the bits of `more` that are in `mask`. */
INLINE __m256i wider(const uint8_t *low, __m256i more, int mask)
{
    return _mm256_or_si256(_mm256_cvtepu8_epi16(load128(low)),
                           _mm256_and_si256(more, _mm256_set1_epi16((short)mask)));
}

INLINE void open_iq2_xxs(const lm_iq2_xxs *b, opened *o)
{
    __m256 even = _mm256_castsi256_ps(_mm256_set_m128i(load128(b->sub + 4), load128(b->sub)));
    __m256 odd = _mm256_castsi256_ps(_mm256_set_m128i(load128(b->sub + 6), load128(b->sub + 2)));

    put(o->signs, four_sevens(_mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xdd))));
}

INLINE void open_iq3_xxs(const lm_iq3_xxs *b, opened *o)
{
    put(o->signs, four_sevens(load256((const uint8_t *)b + offsetof(lm_iq3_xxs, words))));
}

INLINE void open_iq2_xs(const lm_iq2_xs *b, opened *o)
{
    const uint8_t *q = (const uint8_t *)b + offsetof(lm_iq2_xs, qs);
    __m256i even = _mm256_set_m128i(load128(q + 32), load128(q)),
            odd = _mm256_set_m128i(load128(q + 48), load128(q + 16));

    for (int i = 0; i < 2; i++)
        put(o->index + 16 * i, _mm256_and_si256(load256(q + 32 * i), _mm256_set1_epi16(511)));
    put(o->signs, even_parity(_mm256_packus_epi16(_mm256_srli_epi16(even, 9), _mm256_srli_epi16(odd, 9))));
}

INLINE void open_iq2_s(const lm_iq2_s *b, opened *o)
{
    /* moves each field of two bits to bit 8 */
    const __m256i up = _mm256_set1_epi64x(0x0004001000400100);
    const __m256i order = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);

    for (int i = 0; i < 2; i++) {
        __m256i h = _mm256_shuffle_epi8(_mm256_set1_epi32((int)load4(b->qh + 4 * i)), order);
        h = _mm256_and_si256(h, _mm256_set1_epi16(255));
        put(o->index + 16 * i, wider(b->qs + 16 * i, _mm256_mullo_epi16(h, up), 0x300));
    }
    put(o->signs, load256(b->signs));
}

INLINE void open_iq3_s(const lm_iq3_s *b, opened *o)
{
    const __m256i up = _mm256_broadcastsi128_si256(_mm_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2));

    for (int i = 0; i < 4; i++) {
        __m256i h = _mm256_set_m128i(_mm_set1_epi16(b->qh[2 * i + 1]), _mm_set1_epi16(b->qh[2 * i]));
        put(o->index + 16 * i, wider(b->qs + 16 * i, _mm256_mullo_epi16(h, up), 256));
    }
    put(o->signs, load256(b->signs));
}

/* The upper three bits of four indices are fields of a word of qh: `up` and `down` move them to bit 8. */
INLINE void open_iq1(const uint8_t *q, const uint8_t *qh, long long up, int down, opened *o)
{
    const __m256i order = _mm256_setr_epi64x(0x0100010001000100, 0x0302030203020302, 0x0504050405040504,
                                             0x0706070607060706);

    for (int i = 0; i < 2; i++) {
        __m256i h = _mm256_shuffle_epi8(_mm256_set1_epi64x((long long)load8(qh + 8 * i)), order);
        h = _mm256_srli_epi16(_mm256_mullo_epi16(h, _mm256_set1_epi64x(up)), down);
        put(o->index + 16 * i, wider(q + 16 * i, h, 0x700));
    }
}

INLINE void open_iq1_s(const lm_iq1_s *b, opened *o)
{
    open_iq1(b->qs, (const uint8_t *)b + offsetof(lm_iq1_s, qh), 0x0001000800400200, 1, o);
}

INLINE void open_iq1_m(const lm_iq1_m *b, opened *o)
{
    open_iq1(b->qs, b->qh, 0x0001001001001000, 4, o);
}

#define X(word)                                                 \
    INLINE void open_##word(const lm_##word *b, opened *o)      \
    {                                                           \
        (void)b, (void)o;                                       \
    }
X(tq1_0) X(tq2_0) X(nvfp4) X(q1_0) X(q2_0)
#undef X

/* ---- digits of columns 32 s … 32 s + 31 of a block of a row: magnitudes, or integers with what
 * LM_BYTE_TYPES adds to them ------------ */

#define X(word, entries, index)                                                                 \
    INLINE __m256i digits_##word(const lm_##word *b, const opened *o, unsigned s)               \
    {                                                                                           \
        (void)b, (void)o;                                                                       \
        return entries(BOOK(word), index);                                                      \
    }
X(iq2_xxs, FOUR_OF, b->sub[s].index)
X(iq2_xs,  FOUR_OF, o->index + 4 * s)
X(iq2_s,   FOUR_OF, o->index + 4 * s)
X(iq3_xxs, EIGHT_OF, b->qs + 8 * s)
X(iq3_s,   EIGHT_OF, o->index + 8 * s)
#undef X

/* Less one eighth, or more: twice the bit. */
INLINE __m256i digits_iq1_s(const lm_iq1_s *b, const opened *o, unsigned s)
{
    return _mm256_add_epi8(FOUR_OF(BOOK(iq1), o->index + 4 * s),
                           every(LM_OFFSET_small - 7 - (b->qh[s] >> 14 & 2)));
}

INLINE __m256i digits_iq1_m(const lm_iq1_m *b, const opened *o, unsigned s)
{
    const long long first = 0x0808080808080808, second = (long long)0x8080808080808080ULL;
    const __m256i less = _mm256_setr_epi64x(first, second, first, second);
    const __m256i order = _mm256_setr_epi64x(0, 0, 0x0101010101010101, 0x0101010101010101);
    unsigned h = b->qh[2 * s] | (unsigned)b->qh[2 * s + 1] << 8;
    __m256i minus = set_where(_mm256_shuffle_epi8(_mm256_set1_epi32((int)h), order), less);

    minus = _mm256_sub_epi8(every(LM_OFFSET_small - 7), _mm256_and_si256(minus, every(2)));
    return _mm256_add_epi8(FOUR_OF(BOOK(iq1), o->index + 4 * s), minus);
}

/* Five ternary digits in a byte, as byte_strips.c says. */
INLINE __m256i digits_tq1_0(const lm_tq1_0 *b, const opened *o, unsigned s)
{
    (void)o;
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
    const __m256i low = _mm256_set1_epi16(255), three = _mm256_set1_epi16(3),
                  by = _mm256_loadu_si256((const __m256i *)power[s]);
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
    return _mm256_or_si256(even, odd);
}

INLINE __m256i digits_tq2_0(const lm_tq2_0 *b, const opened *o, unsigned s)
{
    (void)o;
    __m256i q = _mm256_loadu_si256((const __m256i *)(b->qs + 32 * (s / 4)));

    q = _mm256_srl_epi16(q, _mm_cvtsi32_si128((int)(2 * (s % 4))));
    return _mm256_and_si256(q, every(3));
}

INLINE __m256i digits_q2_0(const lm_q2_0 *b, const opened *o, unsigned s)
{
    (void)o;
    return spread2(load8(b->qs + 8 * s));
}

INLINE __m256i digits_q1_0(const lm_q1_0 *b, const opened *o, unsigned s)
{
    (void)o;
    return _mm256_and_si256(spread1(load4(b->qs + 4 * s)), every(2));
}

/* Twice the values of E2M1; eight bytes hold the first eight columns in their low nibbles, the others in
 * their high nibbles. */
INLINE __m256i digits_nvfp4(const lm_nvfp4 *b, const opened *o, unsigned s)
{
    (void)o;
    const long long plus = 0x0c08060403020100, minus = (long long)0xf4f8fafcfdfeff00ULL;
    const __m256i table = _mm256_add_epi8(_mm256_set_epi64x(minus, plus, minus, plus),
                                          every(LM_OFFSET_small));
    __m128i q = _mm_loadu_si128((const __m128i *)(b->qs + 16 * s)), nibble = _mm_set1_epi8(15);
    __m128i low = _mm_and_si128(q, nibble), high = _mm_and_si128(_mm_srli_epi16(q, 4), nibble);

    return _mm256_shuffle_epi8(table, _mm256_set_m128i(_mm_unpackhi_epi64(low, high),
                                                       _mm_unpacklo_epi64(low, high)));
}

/* The digits with their signs and the offset of strips. */
#define X(id, word, form, units, added)                                                             \
    INLINE __m256i codes_##word(const lm_##word *b, const opened *o, unsigned s)                    \
    {                                                                                               \
        __m256i v = digits_##word(b, o, s);                                                         \
        return added ? _mm256_add_epi8(v, every(LM_OFFSET_##form - added))                          \
                     : with_signs(v, o->signs[s], LM_OFFSET_##form);                                \
    }
LM_BYTE_TYPES(X)
#undef X

/* ---- scales of a block ----------------------------------------------------------------------- */

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

/* Return the scales of the sixteen halves as whole numbers, a byte each: d times a factor of the type
 * (LM_BYTE_SCALED) times these. */
INLINE __m128i scales_iq2_xxs(const lm_iq2_xxs *b)
{
    const __m128i *p = (const __m128i *)(const void *)b->sub;
    __m128i a = _mm_packs_epi32(_mm_srli_epi64(_mm_loadu_si128(p), 60),
                                _mm_srli_epi64(_mm_loadu_si128(p + 1), 60));
    __m128i c = _mm_packs_epi32(_mm_srli_epi64(_mm_loadu_si128(p + 2), 60),
                                _mm_srli_epi64(_mm_loadu_si128(p + 3), 60));

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

    return odd_twice(
        _mm_packs_epi32(_mm_srli_epi32(_mm_loadu_si128(p), 28), _mm_srli_epi32(_mm_loadu_si128(p + 1), 28)));
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
    __m128i v = _mm_loadl_epi64(
        (const __m128i *)(const void *)((const uint8_t *)b + offsetof(lm_iq1_m, scales)));
    __m128i low, high;

    v = _mm_unpacklo_epi16(v, v);
    low = _mm_and_si128(_mm_srli_epi16(_mm_mullo_epi16(_mm_unpacklo_epi32(v, v), up), 9), three);
    high = _mm_and_si128(_mm_srli_epi16(_mm_mullo_epi16(_mm_unpackhi_epi32(v, v), up), 9), three);
    return odd(_mm_packus_epi16(low, high));
}

/* ---- numbers of eight rows: d of the halves of all units of a block
 * ---------------------------------------------------------------- */

typedef const uint8_t *const *eight_rows;

INLINE __m256 eight_f16(const uint16_t h[8])
{
    return _mm256_cvtph_ps(_mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], (short)h[4],
                                          (short)h[5], (short)h[6], (short)h[7]));
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

/* The block's scale is stored in the top nibbles of its four scale words: a product gathers them in its
 * highest word. */
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
        __m256i w = i % 2 ? _mm256_unpackhi_epi64(b[i / 2 * 2], b[i / 2 * 2 + 1])
                          : _mm256_unpacklo_epi64(b[i / 2 * 2], b[i / 2 * 2 + 1]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            d[4 * i + j] = _mm256_mul_ps(of, _mm256_cvtepi32_ps(
                                                 _mm256_and_si256(_mm256_srli_epi32(w, 8 * j), low)));
    }
}

/* id, suffix of names, factor of the scales, function that reads d. The factor is a power of two, so the
 * order of the products does not matter. */
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
    __m256i words = _mm256_setr_epi32((int)load4(row[0] + at), (int)load4(row[1] + at),
                                      (int)load4(row[2] + at), (int)load4(row[3] + at),
                                      (int)load4(row[4] + at), (int)load4(row[5] + at),
                                      (int)load4(row[6] + at), (int)load4(row[7] + at));

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
