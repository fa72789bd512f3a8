/* quantize.c - choose a quantiser. */
#include "kernels/quantize.h"

#include <stddef.h>

#define QUANTIZE_ROW lm_quantize_row
#include "kernels/quantize_rows.h"

bool lm_can_quantize(lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    return t->in_files && t->pack != NULL;
}

lm_quantize_fn *lm_quantizer(lm_cpu features)
{
#ifdef __x86_64__
    if (features & LM_CPU_AVX512)
        return lm_quantize_row_avx512;
    if (features & LM_CPU_AVX2)
        return lm_quantize_row_avx2;
#endif
    (void)features;
    return lm_quantize_row;
}
