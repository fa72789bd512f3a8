/* byte_strips_avx2.c - unpack small types to strips of bytes, 32 columns of eight rows at a time: the bytes of byte_strips.c. */
#include <pthread.h>
#include <string.h>

#include "kernels/byte_strips.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float half_float(uint16_t h)
{
    return _cvtsh_ss(h);
}

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

/* Return 64 + v, or 64 - v where the bit of `signs` is set. */
INLINE __m256i with_signs(__m256i v, uint32_t signs)
{
    __m256i minus = spread1(signs);

    return _mm256_sub_epi8(_mm256_add_epi8(_mm256_xor_si256(v, minus), every(64)), minus);
}

/* The entries of the codebooks with a byte per digit, eight or four in a word: 34 KB, filled when they are first needed. */
static struct {
    pthread_once_t once;
    uint64_t iq2_xxs[256], iq2_xs[512], iq2_s[1024], iq1[2048], sevens[128];      /* sevens: 1 or -1 by the signs in seven bits */
    uint32_t iq3_xxs[256], iq3_s[512];
} books = { .once = PTHREAD_ONCE_INIT };

/* `values` has the byte of each digit; a digit has `bits` bits. */
static uint64_t spelled(uint16_t entry, unsigned digits, unsigned bits, const uint8_t *values)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < digits; i++)
        x |= (uint64_t)values[entry >> bits * i & (bits == 2 ? 3 : 7)] << 8 * i;
    return x;
}

static void fill_books(void)
{
    static const uint8_t two[4] = { 8, 25, 43 }, one[4] = { 0, 8, 16 };
    static const uint8_t xxs[8] = { 4, 12, 20, 28, 36, 44, 52, 62 }, odd[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };

    for (unsigned i = 0; i < 2048; i++) {
        books.iq1[i] = spelled(lm_grid_iq1[i], 8, 2, one);
        if (i < 1024)
            books.iq2_s[i] = spelled(lm_grid_iq2_s[i], 8, 2, two);
        if (i < 512) {
            books.iq2_xs[i] = spelled(lm_grid_iq2_xs[i], 8, 2, two);
            books.iq3_s[i] = (uint32_t)spelled(lm_grid_iq3_s[i], 4, 4, odd);
        }
        if (i < 256) {
            books.iq2_xxs[i] = spelled(lm_grid_iq2_xxs[i], 8, 2, two);
            books.iq3_xxs[i] = (uint32_t)spelled(lm_grid_iq3_xxs[i], 4, 4, xxs);
        }
        if (i < 128)
            for (unsigned k = 0; k < 8; k++)
                books.sevens[i] |= (uint64_t)((k < 7 ? i >> k & 1 : (unsigned)__builtin_parity(i)) ? 0xff : 1) << 8 * k;
    }
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

/* 64 + v, with the signs of four fields of seven bits. */
INLINE __m256i with_sevens(__m256i v, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return _mm256_add_epi8(_mm256_sign_epi8(v, four_of(books.sevens, a, b, c, d)), every(64));
}

INLINE __m256i with_words_sevens(__m256i v, uint32_t word)
{
    return with_sevens(v, word & 127, word >> 7 & 127, word >> 14 & 127, word >> 21 & 127);
}

INLINE void both(float d[2], float x)
{
    d[0] = d[1] = x;
}

/* ---- units: return the codes of columns 32 s … 32 s + 31 of a block; store the scales of their halves in d ----------------------- */

INLINE __m256i unit_iq2_xxs(const lm_iq2_xxs *b, unsigned s, float d[2])
{
    const uint8_t *i = b->sub[s].index;
    uint32_t word = b->sub[s].word;

    both(d, half_float(b->d) * (0.5f + (float)(word >> 28)) * 0.25f);
    return with_words_sevens(four_of(books.iq2_xxs, i[0], i[1], i[2], i[3]), word);
}

/* A four-bit scale per half. */
INLINE void half_scales(float d[2], uint16_t scale, uint8_t scales)
{
    d[0] = half_float(scale) * (0.5f + (float)(scales & 15)) * 0.25f;
    d[1] = half_float(scale) * (0.5f + (float)(scales >> 4)) * 0.25f;
}

INLINE __m256i unit_iq2_xs(const lm_iq2_xs *b, unsigned s, float d[2])
{
    uint64_t q = load8((const uint8_t *)b + offsetof(lm_iq2_xs, qs) + 8 * s);

    half_scales(d, b->d, b->scales[s]);
    return with_sevens(four_of(books.iq2_xs, q & 511, q >> 16 & 511, q >> 32 & 511, q >> 48 & 511), q >> 9 & 127, q >> 25 & 127,
                       q >> 41 & 127, (unsigned)(q >> 57));
}

INLINE __m256i unit_iq2_s(const lm_iq2_s *b, unsigned s, float d[2])
{
    const uint8_t *q = b->qs + 4 * s;
    unsigned h = b->qh[s];

    half_scales(d, b->d, b->scales[s]);
    return with_signs(four_of(books.iq2_s, q[0] | (h << 8 & 0x300), q[1] | (h << 6 & 0x300), q[2] | (h << 4 & 0x300),
                              q[3] | (h << 2 & 0x300)), load4(b->signs + 4 * s));
}

INLINE __m256i unit_iq3_xxs(const lm_iq3_xxs *b, unsigned s, float d[2])
{
    const uint8_t *q = b->qs + 8 * s;
    const unsigned i[8] = { q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7] };
    uint32_t word = b->words[s];

    both(d, half_float(b->d) * (0.5f + (float)(word >> 28)) * 0.5f);
    return with_words_sevens(eight_of(books.iq3_xxs, i), word);
}

INLINE __m256i unit_iq3_s(const lm_iq3_s *b, unsigned s, float d[2])
{
    const uint8_t *q = b->qs + 8 * s;
    unsigned h = b->qh[s];
    const unsigned i[8] = { q[0] | (h << 8 & 256), q[1] | (h << 7 & 256), q[2] | (h << 6 & 256), q[3] | (h << 5 & 256),
                            q[4] | (h << 4 & 256), q[5] | (h << 3 & 256), q[6] | (h << 2 & 256), q[7] | (h << 1 & 256) };

    both(d, half_float(b->d) * (float)(1 + 2 * (b->scales[s / 2] >> 4 * (s % 2) & 15)));
    return with_signs(eight_of(books.iq3_s, i), load4(b->signs + 4 * s));
}

INLINE __m256i unit_iq1_s(const lm_iq1_s *b, unsigned s, float d[2])
{
    const uint8_t *q = b->qs + 4 * s;
    unsigned h = b->qh[s];

    both(d, half_float(b->d) * (float)(2 * (h >> 12 & 7) + 1) * 0.125f);
    return _mm256_add_epi8(four_of(books.iq1, q[0] | (h << 8 & 0x700), q[1] | (h << 5 & 0x700), q[2] | (h << 2 & 0x700),
                                   q[3] | (h >> 1 & 0x700)), every(h & 0x8000 ? 55 : 57));
}

/* The block's scale is stored in the top nibbles of its four scale words. */
INLINE __m256i unit_iq1_m(const lm_iq1_m *b, unsigned s, float d[2])
{
    const uint8_t *q = b->qs + 4 * s;
    uint64_t scales = load8((const uint8_t *)b + offsetof(lm_iq1_m, scales));
    float all = half_float((uint16_t)((scales >> 12 & 0xf) | (scales >> 24 & 0xf0) | (scales >> 36 & 0xf00) | (scales >> 48 & 0xf000)));
    unsigned h = b->qh[2 * s] | (unsigned)b->qh[2 * s + 1] << 8, two = (unsigned)(scales >> (16 * (s / 2) + 6 * (s % 2)));
    const long long first = 0x0808080808080808, second = (long long)0x8080808080808080ULL;
    const __m256i less = _mm256_setr_epi64x(first, second, first, second);
    const __m256i order = _mm256_setr_epi64x(0, 0, 0x0101010101010101, 0x0101010101010101);
    __m256i minus = set_where(_mm256_shuffle_epi8(_mm256_set1_epi32((int)h), order), less);

    d[0] = all * (float)(2 * (two & 7) + 1) * 0.125f;
    d[1] = all * (float)(2 * (two >> 3 & 7) + 1) * 0.125f;
    minus = _mm256_sub_epi8(every(57), _mm256_and_si256(minus, every(2)));
    return _mm256_add_epi8(four_of(books.iq1, q[0] | (h << 8 & 0x700), q[1] | (h << 4 & 0x700), q[2] | (h & 0x700),
                                   q[3] | (h >> 4 & 0x700)), minus);
}

/* Five ternary digits in a byte, as byte_strips.c says. */
INLINE __m256i unit_tq1_0(const lm_tq1_0 *b, unsigned s, float d[2])
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

    both(d, half_float(b->d));
    if (s < 5)
        q = _mm256_loadu_si256((const __m256i *)b->qs);
    else
        q = _mm256_set_m128i(s < 7 ? more : _mm_set1_epi32((int)load4(b->qh)), more);
    even = _mm256_and_si256(_mm256_mullo_epi16(_mm256_and_si256(q, low), by), low);
    odd = _mm256_and_si256(_mm256_mullo_epi16(_mm256_srli_epi16(q, 8), by), low);
    even = _mm256_srli_epi16(_mm256_mullo_epi16(even, three), 8);
    odd = _mm256_andnot_si256(low, _mm256_mullo_epi16(odd, three));
    return _mm256_add_epi8(_mm256_or_si256(even, odd), every(63));
}

INLINE __m256i unit_tq2_0(const lm_tq2_0 *b, unsigned s, float d[2])
{
    __m256i q = _mm256_loadu_si256((const __m256i *)(b->qs + 32 * (s / 4)));

    both(d, half_float(b->d));
    q = _mm256_srl_epi16(q, _mm_cvtsi32_si128((int)(2 * (s % 4))));
    return _mm256_add_epi8(_mm256_and_si256(q, every(3)), every(63));
}

INLINE __m256i unit_q2_0(const lm_q2_0 *b, unsigned s, float d[2])
{
    both(d, half_float(b->d));
    return spread2(load8(b->qs + 8 * s), every(63), 1, 2);
}

INLINE __m256i unit_q1_0(const lm_q1_0 *b, unsigned s, float d[2])
{
    both(d, half_float(b->d));
    return _mm256_add_epi8(_mm256_and_si256(spread1(load4(b->qs + 4 * s)), every(2)), every(63));
}

/* Half of an unsigned E4M3 number: an f16 number with another bias. 0x7f means 0, not NaN. */
INLINE float half_of_ue4m3(uint8_t x)
{
    return x == 0x7f ? 0.0f : half_float((uint16_t)((x & 0x7f) << 7)) * 128.0f;
}

/* 64 plus twice the values of E2M1; eight bytes hold the first eight columns in their low nibbles, the others in their high nibbles. */
INLINE __m256i unit_nvfp4(const lm_nvfp4 *b, unsigned s, float d[2])
{
    const __m256i table = _mm256_set_epi64x(0x34383a3c3d3e3f40, 0x4c48464443424140, 0x34383a3c3d3e3f40, 0x4c48464443424140);
    __m128i q = _mm_loadu_si128((const __m128i *)(b->qs + 16 * s)), nibble = _mm_set1_epi8(15);
    __m128i low = _mm_and_si128(q, nibble), high = _mm_and_si128(_mm_srli_epi16(q, 4), nibble);

    d[0] = half_of_ue4m3(b->d[2 * s]);
    d[1] = half_of_ue4m3(b->d[2 * s + 1]);
    return _mm256_shuffle_epi8(table, _mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high)));
}

/* ---- strips ------------------------------------------------------------------------------------------------------------------------- */

/* Store 32 codes of each of eight rows: vector v of the unit takes columns 4 v … 4 v + 3 of all rows. */
INLINE void store_rows(uint8_t *to, const __m256i r[8])
{
    __m256i a[8], b[8];

#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        _mm256_storeu_si256((__m256i *)(to + 64 * v), _mm256_permute2x128_si256(b[v], b[v + 4], 0x20));
        _mm256_storeu_si256((__m256i *)(to + 64 * (v + 4)), _mm256_permute2x128_si256(b[v], b[v + 4], 0x31));
    }
}

/* The rows of the next strip follow in memory; a block of each row is too short for the processor to fetch it in time. */
INLINE void prefetch(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* Rows beyond the last are copies of it; their results are not stored. */
#define X(id, word)                                                                                                             \
    static void strip_##word(uint8_t *strip, const lm_matmul_args *a, uint64_t from, uint32_t n)                                \
    {                                                                                                                           \
        const lm_dtype_info *t = lm_dtype_of(id);                                                                               \
        const uint8_t *row[LM_BYTE_ROWS];                                                                                       \
        for (uint32_t i = 0; i < LM_BYTE_ROWS; i++)                                                                             \
            row[i] = lm_stored_row(a->w, t, a->cols, from + (i < n ? i : n - 1));                                               \
        for (uint64_t k = 0; k < a->cols / t->block; k++) {                                                                     \
            prefetch(row[0] + (k + a->cols / t->block) * LM_BYTE_ROWS * t->bytes, LM_BYTE_ROWS * t->bytes);                     \
            for (unsigned s = 0; s < t->block / 32; s++, strip += LM_BYTE_UNIT)                                                 \
                for (unsigned part = 0; part < 2; part++) {                                                                     \
                    uint8_t *to = strip + 32 * part;                                                                            \
                    __m256i codes[8];                                                                                           \
                    _Pragma("GCC unroll 8")                                                                                     \
                    for (unsigned i = 0; i < 8; i++) {                                                                          \
                        float d[2];                                                                                             \
                        codes[i] = unit_##word((const lm_##word *)row[8 * part + i] + k, s, d);                                 \
                        memcpy(to + 4 * i, &d[0], 4);                                                                           \
                        memcpy(to + 64 + 4 * i, &d[1], 4);                                                                      \
                    }                                                                                                           \
                    store_rows(to + LM_BYTE_NUMBERS, codes);                                                                    \
                }                                                                                                               \
        }                                                                                                                       \
    }
LM_BYTE_TYPES(X)
#undef X

lm_byte_unpack *lm_byte_unpack_avx2(lm_dtype type)
{
    pthread_once(&books.once, fill_books);
    switch ((int)type) {
#define X(id, word) \
    case id: return strip_##word;
        LM_BYTE_TYPES(X)
#undef X
    default: return NULL;
    }
}
