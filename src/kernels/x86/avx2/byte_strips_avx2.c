/* byte_strips_avx2.c - unpack small types to strips of bytes, 32 columns of eight rows at a time: the bytes
 * of byte_strips.c. */
#include <pthread.h>

#include "kernels/x86/avx2/byte_units_256.h"
#include "tensor/codebooks.h"

lm_byte_books lm_byte_books_avx2;

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
        lm_byte_books_avx2.iq1[i] = spelled(lm_grid_iq1[i], 8, 2, one);
        if (i < 1024)
            lm_byte_books_avx2.iq2_s[i] = spelled(lm_grid_iq2_s[i], 8, 2, two);
        if (i < 512) {
            lm_byte_books_avx2.iq2_xs[i] = spelled(lm_grid_iq2_xs[i], 8, 2, two);
            lm_byte_books_avx2.iq3_s[i] = (uint32_t)spelled(lm_grid_iq3_s[i], 4, 4, odd);
        }
        if (i < 256) {
            lm_byte_books_avx2.iq2_xxs[i] = spelled(lm_grid_iq2_xxs[i], 8, 2, two);
            lm_byte_books_avx2.iq3_xxs[i] = (uint32_t)spelled(lm_grid_iq3_xxs[i], 4, 4, xxs);
        }
    }
}

void lm_byte_books_fill_avx2(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_books);
}

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

/* Rows beyond the last are copies of it; their results are not stored. */
#define X(id, word, ...)                                                                                    \
    static void strip_##word(uint8_t *strip, const lm_matmul_args *a, uint64_t from, uint32_t n)            \
    {                                                                                                       \
        const lm_dtype_info *t = lm_dtype_of(id);                                                           \
        const uint8_t *row[LM_BYTE_ROWS];                                                                   \
        for (uint32_t i = 0; i < LM_BYTE_ROWS; i++)                                                         \
            row[i] = lm_stored_row(a->w, t, a->cols, from + (i < n ? i : n - 1));                           \
        for (uint64_t k = 0; k < a->cols / t->block; k++, strip += t->block / 32 * LM_BYTE_UNIT) {          \
            prefetch(row[0] + (k + a->cols / t->block) * LM_BYTE_ROWS * t->bytes, LM_BYTE_ROWS * t->bytes); \
            for (unsigned part = 0; part < 2; part++) {                                                     \
                uint8_t *to = strip + 32 * part;                                                            \
                __m256 d[16];                                                                               \
                opened o[8];                                                                                \
                for (unsigned i = 0; i < 8; i++)                                                            \
                    open_##word((const lm_##word *)row[8 * part + i] + k, &o[i]);                           \
                numbers_##word(row + 8 * part, k * sizeof(lm_##word), d);                                   \
                for (unsigned s = 0; s < t->block / 32; s++, to += LM_BYTE_UNIT) {                          \
                    __m256i codes[8];                                                                       \
                    _Pragma("GCC unroll 8")                                                                 \
                    for (unsigned i = 0; i < 8; i++)                                                        \
                        codes[i] = codes_##word((const lm_##word *)row[8 * part + i] + k, &o[i], s);        \
                    _mm256_storeu_ps((float *)(void *)to, d[2 * s]);                                        \
                    _mm256_storeu_ps((float *)(void *)(to + 64), d[2 * s + 1]);                             \
                    store_rows(to + LM_BYTE_NUMBERS, codes);                                                \
                }                                                                                           \
            }                                                                                               \
        }                                                                                                   \
    }
LM_BYTE_TYPES(X)
#undef X

lm_byte_unpack *lm_byte_unpack_avx2(lm_dtype type)
{
    lm_byte_books_fill_avx2();
    switch ((int)type) {
#define X(id, word, ...) \
    case id: return strip_##word;
        LM_BYTE_TYPES(X)
#undef X
    default: return NULL;
    }
}
