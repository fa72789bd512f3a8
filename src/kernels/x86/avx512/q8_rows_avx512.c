/* q8_rows_avx512.c - packing activations, a block of 32 columns in two vectors; to the bits of lm_q8_pack. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/x86/avx512/levels_avx512.h"

/* The largest magnitudes of 32 in eight lanes; compared as integers, so NaN is above infinity above all. */
static inline __m256i largest8(const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(x), magnitude),
                                    _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude));
    return _mm256_max_epi32(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
}

/* Of four blocks, in order: halves of two registers side by side, so each maximum serves two. */
static inline __m128 largest_of_four(const __m256i m[4])
{
    __m256i a = _mm256_max_epi32(_mm256_unpacklo_epi32(m[0], m[1]), _mm256_unpackhi_epi32(m[0], m[1]));
    __m256i b = _mm256_max_epi32(_mm256_unpacklo_epi32(m[2], m[3]), _mm256_unpackhi_epi32(m[2], m[3]));
    __m256i c = _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));

    return _mm_castsi128_ps(_mm_max_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1)));
}

static void largest_magnitudes(const lm_q8_row *r, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b += 4) {
        uint64_t n = blocks - b < 4 ? blocks - b : 4;
        __m256i m[4];
        float most[4];
        for (uint64_t i = 0; i < 4; i++)                     /* the last one again where there are fewer */
            m[i] = largest8(x + 32 * (b + (i < n ? i : n - 1)));
        _mm_storeu_ps(most, largest_of_four(m));
        for (uint64_t i = 0; i < n; i++)
            r->high[b + i].d = most[i];
    }
}

/* 32 integers as bytes. They fit. */
static inline __m256i to_bytes(__m512i first, __m512i second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(first)), _mm512_cvtepi32_epi8(second), 1);
}

/* The sums of the bytes in each half of 32 and of both, where a part of a block wants them:
 *
 *   d | both | first | second | both | first | second | - */
static inline __m256i sums(__m256i q)
{
    __m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);

    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
    return _mm256_add_epi32(_mm256_permutevar8x32_epi32(s, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 4, 0)),
                            _mm256_maskz_permutexvar_epi32(0x12, _mm256_setr_epi32(0, 4, 0, 0, 4, 0, 0, 0), s));
}

/* start and half_start of lm_q8_put_sums, zero elsewhere. */
static inline __m256i starts(__m256i s)
{
    __m256i times = _mm256_sllv_epi32(s, _mm256_setr_epi32(0, 3, 2, 2, 0, 0, 0, 0));

    return _mm256_maskz_sub_epi32(0x0e, _mm256_setzero_si256(), times);
}

static inline void store_part(lm_q8_block *part, __m256i q, __m256i rest)
{
    _mm512_store_si512(part, _mm512_inserti64x4(_mm512_castsi256_si512(q), rest, 1));
}

static inline void pack_block(const lm_q8_row *r, uint64_t b, const float *x)
{
    bool wide = lm_q8_is_wide(r, b);
    float scale = lm_q8_inverse(r, b);
    __m512 id = _mm512_set1_ps(wide ? scale * 128.0f : scale);
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x), id), w = _mm512_mul_ps(_mm512_loadu_ps(x + 16), id);
    __m512i p = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);           /* NaN as zero */
    __m512i q = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(w, w, _CMP_ORD_Q), w);
    __m256i low = _mm256_setzero_si256(), rest = low;
    __m256 below = _mm256_setzero_ps(), d = _mm256_set1_ps(r->high[b].d);

    if (wide) {
        __m512i high = _mm512_srai_epi32(_mm512_add_epi32(p, _mm512_set1_epi32(64)), 7);
        __m512i high2 = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7);
        low = to_bytes(_mm512_sub_epi32(p, _mm512_slli_epi32(high, 7)), _mm512_sub_epi32(q, _mm512_slli_epi32(high2, 7)));
        p = high;
        q = high2;
        __m256i s = sums(low);
        rest = starts(s);
        below = _mm256_mul_ps(_mm256_cvtepi32_ps(s), _mm256_set1_ps(0.0078125f));
    }
    __m256i bytes = to_bytes(p, q), s = sums(bytes), part = starts(s);
    __m256 sum = _mm256_mul_ps(d, _mm256_add_ps(_mm256_cvtepi32_ps(s), below));
    part = _mm256_mask_mov_epi32(part, 0x70, _mm256_castps_si256(sum));
    part = _mm256_mask_mov_epi32(part, 0x01, _mm256_castps_si256(d));
    store_part(&r->high[b], bytes, part);
    store_part(&r->low[b], low, rest);
}

static inline void pack_row(void *dst, const float *x, uint64_t cols, bool all_wide)
{
    lm_q8_row r = lm_q8_row_at(dst, cols);

    largest_magnitudes(&r, x, cols / 32);
    lm_q8_choose(&r, cols / 32, all_wide);
    for (uint64_t b = 0; b < cols / 32; b++)
        pack_block(&r, b, x + 32 * b);
}

static void pack(void *dst, const float *x, uint64_t cols)
{
    pack_row(dst, x, cols, false);
}

static void pack_fine(void *dst, const float *x, uint64_t cols)
{
    pack_row(dst, x, cols, true);
}

const lm_activation lm_activation_q8_avx512 = { .name = "q8 rows", .bytes = lm_q8_bytes, .pack = pack, .pack_fine = pack_fine };
