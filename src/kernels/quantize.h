/* quantize.h - quantise rows of weights with the searches of llama.cpp's quantiser, to the same bytes.
 *
 * A search tries scales for a block and keeps the one with the smallest weighted error. Every sum runs left
 * to right in float32, as in llama.cpp, so each block has its own lane and no sum is split. Contraction is
 * off in the whole project. IQ1 to IQ3 and MXFP4 have other bytes and a smaller error. */
#ifndef LM_KERNELS_QUANTIZE_H
#define LM_KERNELS_QUANTIZE_H

#include "base/os/cpu.h"
#include "tensor/dtype.h"

/* Quantise one row of `cols` elements, a multiple of the type's block, to `dst`. `importance`: the mean
 * square of each input [cols], or NULL. Input must be finite. The bytes do not depend on the level. */
typedef void lm_quantize_fn(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance);

/* Return whether the type has a quantiser. Those of MXFP4 and of IQ1, IQ2 and IQ3 are the codecs themselves,
 * with a smaller error than llama.cpp's; NVFP4, Q1_0 and Q2_0 have none. */
bool lm_can_quantize(lm_dtype type);

/* Return the fastest quantiser for these features. */
lm_quantize_fn *lm_quantizer(lm_cpu features);

lm_quantize_fn lm_quantize_row, lm_quantize_row_avx2, lm_quantize_row_avx512;

#endif
