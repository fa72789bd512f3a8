/* bf16_strips.h - matrices of bfloat16 in pairs of columns, and rows for products of pairs.
 *
 * A strip is sixteen rows of the matrix, the lanes of a vector, and one stream of pairs of columns:
 * [pairs][16][2]. The last strip is padded with rows of zeros. Columns are padded with zeros to whole cache
 * lines of x, sixteen pairs, which is also the size of an AMX tile. */
#ifndef LM_KERNELS_BF16_STRIPS_H
#define LM_KERNELS_BF16_STRIPS_H

#include "kernels/strips.h"

/* Rows rounded to bfloat16: [2 * pairs]; needs AVX512-BF16. */
extern const lm_activation lm_activation_bf16;

static inline uint64_t lm_bf16_pairs(uint64_t cols)
{
    return (cols + 31) / 32 * 16;
}

/* Bytes of a strip. */
static inline uint64_t lm_bf16_strip(uint64_t cols)
{
    return lm_bf16_pairs(cols) * LM_STRIP_ROWS * 4;
}

/* packed_bytes, pack and row of lm_matmul. */
uint64_t lm_bf16_packed_bytes(uint64_t rows, uint64_t cols);
void lm_bf16_pack(void *dst, const void *stored, uint64_t rows, uint64_t cols, uint64_t first, uint64_t last);
void     lm_bf16_row(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row);

#endif
