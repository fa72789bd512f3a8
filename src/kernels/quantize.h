/* quantize.h - rows of weights packed with the searches of llama.cpp's quantiser: the same bytes.
 *
 * A search tries scales for a block and keeps the one of least weighted error; every sum runs left to right in float32, as there,
 * so each block is a lane of its own and no sum is split. Contraction is off in the whole project. */
#ifndef LM_KERNELS_QUANTIZE_H
#define LM_KERNELS_QUANTIZE_H

#include "base/cpu.h"
#include "tensor/dtype.h"

/* One row of `cols` elements, a multiple of the type's block, to `dst`. `importance`: the mean square of each input [cols], or NULL.
 * Finite input only. The bytes do not depend on the level. */
typedef void lm_quantize_fn(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance);

/* Does the type have a quantiser? MXFP4's is the codec's own, of smaller error than llama.cpp's; the IQ1, IQ2, IQ3 and ternary types have
 * none. */
bool lm_can_quantize(lm_dtype type);

/* The fastest for these features. */
lm_quantize_fn *lm_quantizer(lm_cpu features);

lm_quantize_fn lm_quantize_row, lm_quantize_row_avx2, lm_quantize_row_avx512;

#endif
