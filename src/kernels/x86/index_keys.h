/* index_keys.h - lm_attention_kernels.index by vectors of 16 floats where the file that includes it is
 * compiled for AVX-512, else of 8. */
#ifndef LM_KERNELS_X86_INDEX_KEYS_H
#define LM_KERNELS_X86_INDEX_KEYS_H

#include "kernels/x86/avx2/levels_avx2.h"

#ifdef __AVX512F__
#define INDEX_LANES 16
#else
#define INDEX_LANES 8
#endif

typedef float   index_lanes __attribute__((vector_size(INDEX_LANES * 4), aligned(4)));
typedef int32_t index_masks __attribute__((vector_size(INDEX_LANES * 4)));

/* Products are summed in rising order of lanes, without fused operations, as in the reference. */
static void index_keys(const lm_kv_shape *kv, const uint8_t *page, const float *q, const float *w,
                       uint32_t n_heads, float *scratch, float *out, uint64_t stride)
{
    enum { INDEX_VECTORS = LM_PAGE / INDEX_LANES };
    index_lanes total[INDEX_VECTORS] = { 0 };

    lm_attention_keys_avx2(kv, page, scratch);
    for (uint32_t h = 0; h < n_heads; h++, q += kv->k_dim) {
        const index_lanes *key = (const index_lanes *)scratch;
        index_lanes        sum[INDEX_VECTORS] = { 0 };
        for (uint32_t i = 0; i < kv->k_dim; i++, key += INDEX_VECTORS)
#pragma GCC unroll 8
            for (uint32_t v = 0; v < INDEX_VECTORS; v++)
                sum[v] += q[i] * key[v];
#pragma GCC unroll 8
        for (uint32_t v = 0; v < INDEX_VECTORS; v++)
            if (w)
                total[v] += w[h] * (index_lanes)((sum[v] > 0) & (index_masks)sum[v]);
            else
                memcpy(out + h * stride + v * INDEX_LANES, &sum[v], sizeof sum[v]);
    }
    for (uint32_t v = 0; v < INDEX_VECTORS && w; v++)
        memcpy(out + v * INDEX_LANES, &total[v], sizeof total[v]);
}

#endif
