/* levels_avx2.h - the groups of kernels that lm_kernels_init_avx2 consists of. */
#ifndef LM_KERNELS_LEVELS_AVX2_H
#define LM_KERNELS_LEVELS_AVX2_H

#include "kernels/byte_strips.h"
#include "kernels/levels.h"
#include "kernels/strips.h"
#ifdef SSE41
#include "kernels/x86/sse41/names_sse41.h"
#endif

void lm_row_kernels_init_avx2(lm_row_kernels *k);
void lm_attention_kernels_init_avx2(lm_attention_kernels *k);
void lm_exact_init_avx2(lm_kernels *k);
void lm_floats_init_avx2(lm_kernels *k);
void lm_strips_init_avx2(lm_kernels *k);
void lm_strips_init_avxvnni(lm_kernels *k);
void lm_strips_init_avxvnni_evex(lm_kernels *k);

/* The strips of float_strips.h: elements of `size` bytes. */
enum { LM_FLOAT_ROWS = 16, LM_FLOAT_COLUMNS = 256 };
uint64_t lm_float_strips_bytes(uint32_t size, uint64_t rows, uint64_t cols);
void lm_float_strips_pack(uint32_t size, void *dst, const void *stored, uint64_t cols, uint64_t first,
                          uint64_t last);
void     lm_float_strips_row(lm_dtype type, float *dst, const void *w, uint64_t cols, uint64_t row);

/* lm_strip_pack, vectorised: the same bytes. */
void lm_strip_pack_avx2(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                        uint64_t first, uint64_t last);

/* run_stored of the types of strips.h, and of floats. */
#define LM_STORED(id, word, ...) \
    void lm_stored_##word##_avx2(const lm_matmul_args *a, uint64_t row_bytes, uint64_t to);
LM_STRIP_LAYOUTS(LM_STORED)
LM_STORED(LM_F32, f32)
LM_STORED(LM_F16, f16)
LM_STORED(LM_BF16, bf16)

/* Return the function of a type of byte_strips.h: the bytes are those of lm_byte_unpack_ref. */
lm_byte_unpack *lm_byte_unpack_avx2(lm_dtype type);
lm_byte_rows *lm_byte_rows_avx2(lm_dtype type);
#ifndef SSE41
lm_byte_unpack *lm_byte_unpack_sse41(lm_dtype type);         /* for tests */
#endif

/* y = act(x), times `up` if not NULL; may alias. */
void lm_act_rows_avx2(float *y, const float *x, const float *up, lm_act act, uint64_t n);

/* Rows of q8_rows.h, bit-identical to those of lm_q8_pack. */
extern const lm_activation lm_activation_q8_avx2;

/* One key/value head's part of a page: return its size in bytes; return its keys, and its values in *values;
 * unpack both to float32, keys [k_dim][64] and rows [from, to) of values [64][v_dim]. */
uint64_t lm_attention_head_bytes_avx2(const lm_kv_shape *kv);
const uint8_t *lm_attention_head_avx2(const lm_kv_shape *kv, const uint8_t *page, uint32_t head,
                                      const uint8_t **values);
void lm_attention_turn_avx2(const lm_kv_shape *kv, const uint8_t *keys, const uint8_t *values, uint32_t from,
                            uint32_t to, float *out_keys, float *out_values);

/* The parts of lm_attention_turn_avx2: the keys; the values, which for MLA are taken from keys that are
 * already float32. And the kernels for the layout of pages. */
void lm_attention_keys_avx2(const lm_kv_shape *kv, const uint8_t *keys, float *out);
void lm_attention_values_avx2(const lm_kv_shape *kv, const uint8_t *values, uint32_t from, uint32_t to,
                              const float *keys, float *out);
void lm_attention_pages_init_avx2(lm_attention_kernels *k);

/* Return the number of f16 numbers at the start of a block of 32 of a cache type: a scale, or a scale and a
 * minimum. */
static inline uint32_t lm_block_scales(lm_dtype type)
{
    return type == LM_Q4_1 || type == LM_Q5_1 ? 2 : 1;
}

/* Return the unpack function of a type, vectorised for common types; bit-identical to that of dtype.h. */
void (*lm_unpack_avx2(lm_dtype type))(float *dst, const void *src, size_t n);

#endif
