/* q8_rows_avx512.c - pack activations, a block of 32 columns in two vectors; bit-identical to lm_q8_pack. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/x86/avx512/levels_avx512.h"

/* Reduce the magnitudes of 32 numbers to eight lanes of maxima; they are compared as integers, so NaN is
 * above infinity. */
static inline __m256i largest8(const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i max = _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(x), magnitude),
                                   _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude));
    return _mm256_max_epi32(_mm512_castsi512_si256(max), _mm512_extracti64x4_epi64(max, 1));
}

/* Return the largest magnitudes of four blocks, in order. Halves of two registers are interleaved, so each
 * maximum serves two blocks. */
static inline __m128 largest_of_four(const __m256i m[4])
{
    __m256i a = _mm256_max_epi32(_mm256_unpacklo_epi32(m[0], m[1]), _mm256_unpackhi_epi32(m[0], m[1]));
    __m256i b = _mm256_max_epi32(_mm256_unpacklo_epi32(m[2], m[3]), _mm256_unpackhi_epi32(m[2], m[3]));
    __m256i c = _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));

    return _mm_castsi128_ps(_mm_max_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1)));
}

/* lm_q8_largest_below */
static inline float largest_below(const float *x, float top)
{
    __m512 max = _mm512_setzero_ps();

    for (int i = 0; i < 2; i++) {
        __m512 m = _mm512_abs_ps(_mm512_loadu_ps(x + 16 * i));
        m = _mm512_max_ps(m, _mm512_permute_ps(m, 0xb1));
        m = _mm512_max_ps(m, _mm512_permute_ps(m, 0x4e));    /* in every lane, the maximum of its four */
        max = _mm512_mask_max_ps(max, _mm512_cmp_ps_mask(m, _mm512_set1_ps(top), _CMP_LE_OQ), max, m);
    }
    return _mm512_reduce_max_ps(max);
}

static void largest_magnitudes(const lm_q8_row *r, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b += 4) {
        uint64_t n = blocks - b < 4 ? blocks - b : 4;
        __m256i m[4];
        for (uint64_t i = 0; i < 4; i++)                     /* past the end the last block again: there is
                                                                space for it */
            m[i] = largest8(x + 32 * (b + (i < n ? i : n - 1)));
        _mm_storeu_ps(r->max + b, largest_of_four(m));
    }
}

/* Values common to all blocks of a row. */
typedef struct row_choice {
    float top, of_row;               /* magnitude above which a block gets high bytes; the largest
                                        magnitude */
    bool  all_wide;
} row_choice;

static inline __mmask16 lanes_of(uint64_t b, uint64_t blocks)
{
    return (__mmask16)(blocks - b < 16 ? (1u << (blocks - b)) - 1 : 0xffffu);
}

static row_choice survey(const lm_q8_row *r, uint64_t blocks, bool all_wide)
{
    __m512 sums = _mm512_setzero_ps(), max = sums;
    float lanes[16];

    for (uint64_t b = 0; b < blocks; b += 16) {
        __mmask16 in = lanes_of(b, blocks);
        __m512 m = _mm512_maskz_loadu_ps(in, r->max + b);
        sums = _mm512_add_ps(sums, m);
        max = _mm512_mask_max_ps(max, _mm512_cmp_ps_mask(m, _mm512_set1_ps(INFINITY), _CMP_LT_OQ), max, m);
    }
    _mm512_storeu_ps(lanes, sums);
    return (row_choice){ lm_q8_top(lanes, blocks), _mm512_reduce_max_ps(max), all_wide };
}

/* The maximum of magnitudes; NaN is above infinity. */
static inline __m512 larger(__m512 a, __m512 b)
{
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

/* The maximum of each group of four lanes. */
static inline __m512 of_group(__m512 v)
{
    v = larger(v, _mm512_permute_ps(v, 0xb1));
    return larger(v, _mm512_permute_ps(v, 0x4e));
}

/* The results of lm_q8_choose for sixteen blocks from b on. */
typedef struct sixteen {
    float d[16], inverse[16], ratio[16];
    uint32_t wide;
} sixteen;

static inline __m512 choose(const lm_q8_row *r, const row_choice *c, const float *x, uint64_t b,
                            uint64_t blocks, __m512 before, sixteen *out)
{
    const __mmask16 in = lanes_of(b, blocks), firsts = b ? 0x1111 : 0x1110;
    __m512 max = _mm512_maskz_loadu_ps(in, r->max + b), rest = max;
    __mmask16 wide = c->all_wide ? in : _mm512_cmp_ps_mask(max, _mm512_set1_ps(c->top), _CMP_GT_OQ);

    if (c->all_wide) {
        rest = _mm512_setzero_ps();
    } else if (wide) {
        float eight[16];
        _mm512_storeu_ps(eight, max);
        for (unsigned left = wide; left; left &= left - 1) {
            unsigned i = (unsigned)__builtin_ctz(left);
            eight[i] = largest_below(x + 32 * (b + i), c->top);
        }
        rest = _mm512_loadu_ps(eight);
    }
    __m512 d = larger(_mm512_div_ps(of_group(rest), _mm512_set1_ps(127.0f)),
                      _mm512_div_ps(of_group(max), _mm512_set1_ps(16256.0f)));
    d = larger(d, _mm512_set1_ps(c->of_row * LM_Q8_RANGE));
    if (c->of_row < LM_Q8_LEAST)
        d = _mm512_setzero_ps();
    __mmask16 bad = _mm512_cmp_ps_mask(of_group(max), _mm512_set1_ps(INFINITY), _CMP_NLT_UQ);
    d = _mm512_mask_mov_ps(d, bad, _mm512_set1_ps(NAN));
    before = _mm512_castsi512_ps(
        _mm512_alignr_epi32(_mm512_castps_si512(d), _mm512_castps_si512(before), 12));
    __mmask16 differ = _mm512_mask_cmp_ps_mask(firsts, before, d, _CMP_NEQ_UQ);
    _mm512_storeu_ps(out->d, d);
    _mm512_storeu_ps(out->ratio, _mm512_mask_div_ps(_mm512_set1_ps(1.0f), differ, before, d));
    _mm512_storeu_ps(out->inverse, _mm512_maskz_div_ps(_mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_GT_OQ),
                                                       _mm512_set1_ps(1.0f), d));
    out->wide = wide;
    return d;
}

/* Convert 32 integers, which fit, to bytes. */
static inline __m256i to_bytes(__m512i first, __m512i second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(first)),
                                   _mm512_cvtepi32_epi8(second), 1);
}

/* Return the sums of the bytes in each half of 32 and in both, in the order of the members of lm_q8_block:
 *
 *   d | both | first | second | both | first | second | - */
static inline __m256i sums(__m256i q)
{
    __m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);

    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
    return _mm256_add_epi32(_mm256_permutevar8x32_epi32(s, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 4, 0)),
                            _mm256_maskz_permutexvar_epi32(0x12, _mm256_setr_epi32(0, 4, 0, 0, 4, 0, 0, 0),
                                                           s));
}

/* Return start and half_start of lm_q8_put_sums in their lanes, zero in the others. */
static inline __m256i starts(__m256i s)
{
    __m256i times = _mm256_sllv_epi32(s, _mm256_setr_epi32(0, 7, 5, 5, 0, 0, 0, 0));

    return _mm256_maskz_sub_epi32(0x0e, _mm256_setzero_si256(), times);
}

static inline void store_part(lm_q8_block *part, __m256i q, __m256i rest)
{
    _mm512_store_si512(part, _mm512_inserti64x4(_mm512_castsi256_si512(q), rest, 1));
}

/* Return the part that does not fit in eight bits, in units of 128; q keeps the rest. */
static inline __m512i above(__m512i *q)
{
    __mmask16 out = _mm512_cmpgt_epi32_mask(_mm512_abs_epi32(*q), _mm512_set1_epi32(127));
    __m512i high = _mm512_maskz_srai_epi32(out, _mm512_add_epi32(*q, _mm512_set1_epi32(64)), 7);
    *q = _mm512_sub_epi32(*q, _mm512_slli_epi32(high, 7));
    return high;
}

static inline void pack_block(lm_q8_block *to, lm_q8_block *to_high, const float *x, const sixteen *c,
                              unsigned i)
{
    __m512 id = _mm512_set1_ps(c->inverse[i]);
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x), id), w = _mm512_mul_ps(_mm512_loadu_ps(x + 16), id);
    __m512i p = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);           /* NaN as zero */
    __m512i q = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(w, w, _CMP_ORD_Q), w);
    __m256i more = _mm256_setzero_si256();

    if (c->wide >> i & 1) {
        __m512i p_high = above(&p), q_high = above(&q);
        __m256i high = to_bytes(p_high, q_high);
        more = sums(high);
        store_part(to_high, high,
                   _mm256_mask_set1_epi32(starts(more), 0x80, _mm256_test_epi32_mask(high, high)));
        more = _mm256_slli_epi32(more, 7);
    }
    __m256i bytes = to_bytes(p, q), s = sums(bytes), part = starts(s);
    __m256 total = _mm256_cvtepi32_ps(_mm256_add_epi32(s, more));
    part = _mm256_mask_mov_epi32(part, 0x70, _mm256_castps_si256(total));
    part = _mm256_mask_mov_epi32(part, 0x01, _mm256_castps_si256(_mm256_broadcast_ss(&c->d[i])));
    part = _mm256_mask_mov_epi32(part, 0x80, _mm256_castps_si256(_mm256_broadcast_ss(&c->ratio[i])));
    store_part(to, bytes, part);
}

static inline void pack_row(void *dst, const float *x, uint64_t cols, bool all_wide)
{
    lm_q8_row r = lm_q8_row_at(dst, cols);
    const __m512i counted = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint64_t blocks = cols / 32;
    uint32_t wide = 0;

    largest_magnitudes(&r, x, blocks);
    _mm512_storeu_si512(r.head, _mm512_setzero_si512());
    for (uint64_t i = 0; i < lm_q8_mask_bytes(cols); i += 64)
        _mm512_storeu_si512((uint8_t *)r.wide + i, _mm512_setzero_si512());
    row_choice all = survey(&r, blocks, all_wide);
    __m512 before = _mm512_setzero_ps();
    for (uint64_t b = 0; b < blocks; b += 16) {
        sixteen c;
        before = choose(&r, &all, x, b, blocks, before, &c);
        r.wide[b / 64] |= (uint64_t)c.wide << b % 64;
        _mm512_mask_compressstoreu_epi32(r.listed + wide, (__mmask16)c.wide,
                                         _mm512_add_epi32(_mm512_set1_epi32((int)b), counted));
        wide += (uint32_t)__builtin_popcount(c.wide);
        for (unsigned i = 0; i < 16 && b + i < blocks; i++)
            pack_block(&r.low[b + i], &r.high[b + i], x + 32 * (b + i), &c, i);
    }
    r.head->wide = wide;
}

static void pack(void *dst, const float *x, uint64_t cols)
{
    pack_row(dst, x, cols, false);
}

static void pack_fine(void *dst, const float *x, uint64_t cols)
{
    pack_row(dst, x, cols, true);
}

const lm_activation lm_activation_q8_avx512 = {
    .name = "q8 rows", .bytes = lm_q8_bytes, .pack = pack, .pack_fine = pack_fine,
    .pack_rounded = lm_q8_pack_rounded
};
