/* quantize_avx2.c - the searches of the quantisers for AVX2. */
#define QUANTIZE_ROW lm_quantize_row_avx2
#include "kernels/quantize_rows.h"
