/* pages_avx2.c - the layout of pages for attention on x86.
 *
 * A layer's part of a page holds, for each key/value head in order:
 *   keys    [k_dim][64] transposed: a lane of all 64 keys is contiguous, so scores need no horizontal sum.
 *           Blocks of 32 lanes: [k_dim/32], for each the f16 scales [1 or 2][64], then its other bytes
 *           [..][64], in the order of blocks.h
 *   values  [64][v_dim] as rows of their type */
#include <string.h>

#include "kernels/attention_parts.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/index_keys.h"
#include "kernels/x86/vec_256.h"

static uint64_t row_bytes(lm_dtype type, uint32_t dim)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    return (uint64_t)dim / t->block * t->bytes;
}

uint64_t lm_attention_head_bytes_avx2(const lm_kv_shape *kv)
{
    return LM_PAGE * (row_bytes(kv->k_type, kv->k_dim) + (kv->v_in_k ? 0 : row_bytes(kv->v_type, kv->v_dim)));
}

static uint64_t page_bytes(const lm_kv_shape *kv)
{
    return (kv->n_kv_heads * lm_attention_head_bytes_avx2(kv) + 63) & ~UINT64_C(63);
}

/* ---- storing
 * ----------------------------------------------------------------------------------------------------- */

/* Store one key in blocks. */
static void store_key_blocks(lm_dtype type, uint32_t lanes, uint8_t *keys, uint32_t slot, const float *k,
                             uint32_t dim)
{
    const uint32_t bytes = lm_dtype_of(type)->bytes, scales = 2 * lm_block_scales(type),
                   some = lanes ? lanes : 32;
    uint8_t        blocks[128];

    for (uint32_t b = 0; b < dim / 32; b++, keys += bytes * LM_PAGE) {
        const uint8_t *block = blocks + 32 * b % some / 32 * bytes;
        if (32 * b % some == 0)
            pack_row(type, lanes, blocks, k + 32 * b, some);
        for (uint32_t i = 0; i < scales; i += 2)
            memcpy(keys + i * LM_PAGE + 2 * slot, block + i, 2);
        for (uint32_t i = scales; i < bytes; i++)
            keys[i * LM_PAGE + slot] = block[i];
    }
}

/* Transpose eight rows of eight. */
static void turn_8x8(float *out, uint64_t stride, const float *in, uint64_t in_stride)
{
    __m256 a[8], b[8];

    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(in + (uint64_t)i * in_stride);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + (uint64_t)i * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(out + (uint64_t)(i + 4) * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* Store one lane of a key. */
INLINE void store_lane(const lm_dtype type, uint8_t *keys, uint64_t at, float k)
{
    uint16_t bits;

    switch ((int)type) {
    case LM_F32: memcpy(keys + 4 * at, &k, 4); break;
    case LM_F16: bits = _cvtss_sh(k, 0); memcpy(keys + 2 * at, &bits, 2); break;
    default: bits = lm_f32_to_bf16(k); memcpy(keys + 2 * at, &bits, 2);
    }
}

INLINE void store_lanes_as(const lm_dtype type, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k,
                           uint64_t stride, uint32_t from, uint32_t to)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = from; i < to; i++)
            store_lane(type, keys, (uint64_t)i * LM_PAGE + slot + r, k[r * stride + i]);
}

/* Store lanes [from, to) of some keys. */
static void store_lanes(lm_dtype type, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k,
                        uint64_t stride, uint32_t from, uint32_t to)
{
    switch ((int)type) {
    case LM_F32: store_lanes_as(LM_F32, keys, slot, rows, k, stride, from, to); break;
    case LM_F16: store_lanes_as(LM_F16, keys, slot, rows, k, stride, from, to); break;
    default: store_lanes_as(LM_BF16, keys, slot, rows, k, stride, from, to);
    }
}

/* Store eight lanes of eight keys, in F16. */
static void store_8x8(uint8_t *keys, uint32_t lane, uint32_t slot, const float *k, uint64_t stride)
{
    float transposed[64];

    turn_8x8(transposed, 8, k, stride);
    for (uint32_t i = 0; i < 8; i++)
        _mm_storeu_si128((void *)(keys + 2 * ((uint64_t)(lane + i) * LM_PAGE + slot)),
                         _mm256_cvtps_ph(_mm256_loadu_ps(transposed + 8 * i), 0));
}

/* All rows of a lane are contiguous, often in cache lines that another worker also writes: eight rows of F16
 * touch them only once. */
static void store_keys(const lm_kv_shape *kv, uint8_t *keys, uint32_t slot, uint32_t rows, const float *k,
                       uint64_t stride)
{
    const lm_dtype type = kv->k_type;
    const uint32_t dim = kv->k_dim, lanes = rows >= 8 && type == LM_F16 ? dim & ~7u : 0;

    if (lm_dtype_of(type)->quantized) {
        for (uint32_t r = 0; r < rows; r++)
            store_key_blocks(type, lm_hadamard_of_keys(kv), keys, slot + r, k + r * stride, dim);
        return;
    }
    for (uint32_t i = 0; i < lanes; i += 8) {
        uint32_t r = 0;
        for (; r + 8 <= rows; r += 8)
            store_8x8(keys, i, slot + r, k + r * stride + i, stride);
        store_lanes(type, keys, slot + r, rows - r, k + r * stride, stride, i, i + 8);
    }
    store_lanes(type, keys, slot, rows, k, stride, lanes, dim);
}

static void store_values(const lm_kv_shape *kv, uint8_t *values, const float *v)
{
    const lm_dtype type = kv->v_type;
    const uint32_t dim = kv->v_dim;
    uint32_t i = 0;

    if (type != LM_F16) {
        pack_row(type, lm_hadamard_of_values(kv), values, v, dim);
        return;
    }
    for (; i + 8 <= dim; i += 8)
        _mm_storeu_si128((void *)(values + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(v + i), 0));
    lm_dtype_of(type)->pack(values + 2 * i, v + i, dim - i);
}

static void store(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, uint32_t rows, const float *k,
                  uint64_t k_stride, const float *v, uint64_t v_stride)
{
    uint64_t v_bytes = kv->v_in_k ? 0 : row_bytes(kv->v_type, kv->v_dim);

    for (uint32_t h = 0; h < kv->n_kv_heads; h++) {
        uint8_t *keys = page + h * lm_attention_head_bytes_avx2(kv),
                *values = keys + LM_PAGE * row_bytes(kv->k_type, kv->k_dim);
        store_keys(kv, keys, slot, rows, k + (uint64_t)h * kv->k_dim, k_stride);
        for (uint32_t r = 0; r < rows && !kv->v_in_k; r++)
            store_values(kv, values + (slot + r) * v_bytes, v + r * v_stride + (uint64_t)h * kv->v_dim);
    }
}

/* ---- a page as float32
 * ------------------------------------------------------------------------------------------- */

/* Read sixteen codes of lane `i`, and of lane i + 16, of a block's keys. `codes`: [32][64], or nibbles
 * [16][64]; `fifth`: [4][64]. */
INLINE void sixteen_codes(const lm_dtype type, const uint8_t *fifth, const uint8_t *codes, uint32_t i,
                          __m128i *low, __m128i *high)
{
    const __m128i nibble = _mm_set1_epi8(15), zero = _mm_set1_epi8(type == LM_Q4_0 ? 8 : 16);
    __m128i both = _mm_loadu_si128((const void *)(codes + i * LM_PAGE));

    *low = both;
    *high = _mm_loadu_si128((const void *)(codes + (i + 16) * (type == LM_Q8_0 ? LM_PAGE : 0)));
    if (type == LM_Q8_0)
        return;
    *low = _mm_and_si128(both, nibble);
    *high = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
    if (type == LM_Q5_0 || type == LM_Q5_1) {
        const __m128i sixteen = _mm_set1_epi8(16), bit = _mm_set1_epi8((char)(1u << i % 8));
        __m128i first = _mm_loadu_si128((const void *)(fifth + i / 8 * LM_PAGE));
        __m128i second = _mm_loadu_si128((const void *)(fifth + (i / 8 + 2) * LM_PAGE));
        *low = _mm_or_si128(*low, _mm_and_si128(sixteen, _mm_cmpeq_epi8(_mm_and_si128(first, bit), bit)));
        *high = _mm_or_si128(*high, _mm_and_si128(sixteen, _mm_cmpeq_epi8(_mm_and_si128(second, bit), bit)));
    }
    if (type == LM_Q4_0 || type == LM_Q5_0) {
        *low = _mm_sub_epi8(*low, zero);
        *high = _mm_sub_epi8(*high, zero);
    }
}

/* Multiply eight codes by the scales of their keys; bit-identical to unpack of dtype.h. */
INLINE void put_eight(const lm_dtype type, float *out, __m128i codes, __m256 d, __m256 m)
{
    __m256 x = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)));

    _mm256_storeu_ps(out, type == LM_Q4_1 || type == LM_Q5_1 ? _mm256_add_ps(x, m) : x);
}

/* Unpack keys stored in blocks, sixteen keys at a time. */
INLINE void load_blocks(const lm_dtype type, const uint8_t *keys, uint32_t dim, float *out)
{
    const uint32_t bytes = lm_dtype_of(type)->bytes, scales = 2 * lm_block_scales(type),
                   lanes = type == LM_Q8_0 ? 32 : 16;

    for (uint32_t b = 0; b < dim / 32; b++, keys += bytes * LM_PAGE, out += 32 * LM_PAGE) {
        for (uint32_t j = 0; j < LM_PAGE; j += 16) {
            const uint8_t *fifth = keys + scales * LM_PAGE + j, *codes = keys + (bytes - lanes) * LM_PAGE + j;
            __m256 d[2], m[2];
            for (int v = 0; v < 2; v++) {
                d[v] = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(keys + 2 * (j + 8 * (unsigned)v))));
                m[v] = scales > 2 ? _mm256_cvtph_ps(_mm_loadu_si128(
                                        (const void *)(keys + 2 * (LM_PAGE + j + 8 * (unsigned)v))))
                                  : d[v];
            }
            for (uint32_t i = 0; i < 16; i++) {
                float *to = out + i * LM_PAGE + j, *to_high = to + 16 * LM_PAGE;
                __m128i low, high;
                sixteen_codes(type, fifth, codes, i, &low, &high);
                put_eight(type, to, low, d[0], m[0]);
                put_eight(type, to + 8, _mm_srli_si128(low, 8), d[1], m[1]);
                put_eight(type, to_high, high, d[0], m[0]);
                put_eight(type, to_high + 8, _mm_srli_si128(high, 8), d[1], m[1]);
            }
        }
    }
}

void lm_attention_keys_avx2(const lm_kv_shape *kv, const uint8_t *keys, float *out)
{
    switch ((int)kv->k_type) {
    case LM_Q8_0: load_blocks(LM_Q8_0, keys, kv->k_dim, out); break;
    case LM_Q4_0: load_blocks(LM_Q4_0, keys, kv->k_dim, out); break;
    case LM_Q4_1: load_blocks(LM_Q4_1, keys, kv->k_dim, out); break;
    case LM_Q5_0: load_blocks(LM_Q5_0, keys, kv->k_dim, out); break;
    case LM_Q5_1: load_blocks(LM_Q5_1, keys, kv->k_dim, out); break;
    default: lm_unpack_avx2(kv->k_type)(out, keys, (size_t)kv->k_dim * LM_PAGE);
    }
}

void lm_attention_values_avx2(const lm_kv_shape *kv, const uint8_t *values, uint32_t from, uint32_t to,
                              const float *keys, float *out)
{
    if (!kv->v_in_k) {
        lm_unpack_avx2(kv->v_type)(out + (uint64_t)from * kv->v_dim,
                                   values + from * row_bytes(kv->v_type, kv->v_dim),
                                   (size_t)(to - from) * kv->v_dim);
        return;
    }
    uint32_t whole = kv->v_dim & ~7u;
    for (uint32_t j = from & ~7u; j < to; j += 8)
        for (uint32_t i = 0; i < whole; i += 8)
            turn_8x8(out + (uint64_t)j * kv->v_dim + i, kv->v_dim, keys + (uint64_t)i * LM_PAGE + j, LM_PAGE);
    for (uint32_t j = from; j < to; j++)
        for (uint32_t i = whole; i < kv->v_dim; i++)
            out[(uint64_t)j * kv->v_dim + i] = keys[(uint64_t)i * LM_PAGE + j];
}

const uint8_t *lm_attention_head_avx2(const lm_kv_shape *kv, const uint8_t *page, uint32_t head,
                                      const uint8_t **values)
{
    const uint8_t *keys = page + head * lm_attention_head_bytes_avx2(kv);

    *values = keys + LM_PAGE * row_bytes(kv->k_type, kv->k_dim);
    return keys;
}

void lm_attention_turn_avx2(const lm_kv_shape *kv, const uint8_t *keys, const uint8_t *values, uint32_t from,
                            uint32_t to, float *out_keys, float *out_values)
{
    lm_attention_keys_avx2(kv, keys, out_keys);
    lm_attention_values_avx2(kv, values, from, to, out_keys, out_values);
}

/* ---- sparse attention ---- */

/* Which of 64 entries are copied. Of entries of two bytes, eight at a time: those eights that have any, with
 * the shuffle that moves them to the front. */
typedef struct picked {
    uint32_t n, eights;
    uint8_t  at[LM_PAGE];
    uint8_t  from[LM_PAGE / 8], count[LM_PAGE / 8];
    __m128i  shuffle[LM_PAGE / 8];
} picked;

static picked pick(uint64_t slots)
{
    picked p = { 0 };

    for (uint32_t i = 0; i < LM_PAGE; i += 8) {
        uint8_t bytes[16] = { 0 };
        uint32_t n = 0;
        for (uint32_t k = i; k < i + 8; k++)
            if (slots >> k & 1) {
                p.at[p.n++] = (uint8_t)k;
                bytes[2 * n] = (uint8_t)(2 * (k - i));
                bytes[2 * n + 1] = (uint8_t)(2 * (k - i) + 1);
                n++;
            }
        p.from[p.eights] = (uint8_t)i;
        p.count[p.eights] = (uint8_t)n;
        p.shuffle[p.eights] = _mm_loadu_si128((const void *)bytes);
        p.eights += n > 0;
    }
    return p;
}

/* Copy the picked entries of two bytes of each row of 64. What a whole store writes past them within a row is
 * not in use yet; the last ones of a row are stored alone. */
static void copy_pairs(uint8_t *to, uint32_t slot, const uint8_t *from, uint32_t rows, const picked *p)
{
    for (uint32_t i = 0; i < rows; i++, to += LM_PAGE * 2, from += LM_PAGE * 2)
        for (uint32_t e = 0, at = slot; e < p->eights; at += p->count[e++]) {
            __m128i x = _mm_loadu_si128((const void *)(from + 2 * p->from[e]));
            x = _mm_shuffle_epi8(x, p->shuffle[e]);
            if (at + 8 <= LM_PAGE)
                _mm_storeu_si128((void *)(to + 2 * at), x);
            else
                memcpy(to + 2 * at, &x, 2 * p->count[e]);
        }
}

static void copy_entries(uint8_t *to, uint32_t slot, const uint8_t *from, uint32_t rows, const picked *p,
                         const uint32_t bytes)
{
    for (uint32_t i = 0; i < rows; i++, to += LM_PAGE * bytes, from += LM_PAGE * bytes)
        for (uint32_t k = 0; k < p->n; k++)
            memcpy(to + (slot + k) * bytes, from + p->at[k] * bytes, bytes);
}

static void copy_keys(const lm_kv_shape *kv, uint8_t *to, uint32_t slot, const uint8_t *from, const picked *p)
{
    const lm_dtype_info *t = lm_dtype_of(kv->k_type);
    const uint32_t       scales = lm_block_scales(kv->k_type), past = 2 * scales * LM_PAGE;

    if (!t->quantized && t->bytes == 4)
        copy_entries(to, slot, from, kv->k_dim, p, 4);
    else if (!t->quantized)
        copy_pairs(to, slot, from, kv->k_dim, p);
    for (uint32_t b = 0; t->quantized && b < kv->k_dim / 32; b++) {
        copy_pairs(to, slot, from, scales, p);
        copy_entries(to + past, slot, from + past, t->bytes - 2 * scales, p, 1);
        to += t->bytes * LM_PAGE;
        from += t->bytes * LM_PAGE;
    }
}

static void copy(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, const uint8_t *from, uint64_t slots)
{
    const picked p = pick(slots);
    uint64_t bytes = lm_attention_head_bytes_avx2(kv), values = LM_PAGE * row_bytes(kv->k_type, kv->k_dim),
             v_bytes = kv->v_in_k ? 0 : row_bytes(kv->v_type, kv->v_dim);

    for (uint32_t h = 0; h < kv->n_kv_heads; h++, page += bytes, from += bytes) {
        copy_keys(kv, page, slot, from, &p);
        for (uint32_t k = 0; v_bytes && k < p.n; k++)
            memcpy(page + values + (slot + k) * v_bytes, from + values + p.at[k] * v_bytes, v_bytes);
    }
}

void lm_attention_pages_init_avx2(lm_attention_kernels *k)
{
    k->page_bytes = page_bytes;
    k->store = store;
    k->copy = copy;
    k->index = index_keys;
}
