/* q8_rows_avx2.c - pack activations, 32 columns at a time; bit-identical to lm_q8_pack. */

#include "kernels/q8_rows.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"

/* Return the largest magnitude of 32 numbers; they are compared as integers, so NaN is above infinity. */
static inline float largest(const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_setzero_si256();

    for (int i = 0; i < 4; i++)
        max = _mm256_max_epi32(max,
                               _mm256_and_si256(_mm256_loadu_si256((const void *)(x + 8 * i)), magnitude));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* Compute the sums of the bytes in each half of 32. */
static inline void half_sums(__m256i q, int32_t out[2])
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q),
            s = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));

    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
    out[0] = _mm256_extract_epi32(s, 0);
    out[1] = _mm256_extract_epi32(s, 4);
}

/* Convert 32 32-bit integers to bytes. */
static inline __m256i to_bytes(const __m256i q[4])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(packed, order);
}

static void pack_block(const lm_q8_row *r, uint64_t b, const float *x)
{
    int32_t low[2], high[2] = { 0, 0 };
    __m256 id = _mm256_set1_ps(lm_q8_inverse(r, b));
    __m256i q[4], above[4];

    for (int i = 0; i < 4; i++) {                            /* NaN as zero */
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), id);
        q[i] = _mm256_cvtps_epi32(_mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)));
    }
    if (lm_q8_is_wide(r, b)) {
        for (int i = 0; i < 4; i++) {
            __m256i out = _mm256_cmpgt_epi32(_mm256_abs_epi32(q[i]), _mm256_set1_epi32(127));
            above[i] = _mm256_and_si256(out,
                                        _mm256_srai_epi32(_mm256_add_epi32(q[i], _mm256_set1_epi32(64)), 7));
            q[i] = _mm256_sub_epi32(q[i], _mm256_slli_epi32(above[i], 7));
        }
        __m256i rest = to_bytes(above), zero = _mm256_cmpeq_epi32(rest, _mm256_setzero_si256());
        half_sums(rest, high);
        _mm256_storeu_si256((void *)r->high[b].q, rest);
        r->high[b].fours = 0xff & ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(zero));
    }
    __m256i bytes = to_bytes(q);
    half_sums(bytes, low);
    _mm256_storeu_si256((void *)r->low[b].q, bytes);
    lm_q8_put_sums(r, b, low, high);
}

static inline void pack_row(void *dst, const float *x, uint64_t cols, bool all_wide)
{
    lm_q8_row r = lm_q8_row_at(dst, cols);

    for (uint64_t b = 0; b < cols / 32; b++)
        r.max[b] = largest(x + 32 * b);
    lm_q8_choose(&r, x, cols / 32, all_wide);
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

const lm_activation lm_activation_q8_avx2 = {
    .name = "q8 rows", .bytes = lm_q8_bytes, .pack = pack, .pack_fine = pack_fine,
    .pack_rounded = lm_q8_pack_rounded
};
