/* quantize_avx512.c - the searches of the quantisers for AVX-512. */
#define QUANTIZE_ROW lm_quantize_row_avx512
#include "kernels/quantize_rows.h"
