/* probe.c - the probes in plain C, and the choice of probes for a processor. */
#include "kernels/probe.h"

#include <string.h>

#include "base/rng.h"

enum { CHAINS = 16 };

static void f32_ref(void *data, uint64_t rounds)
{
    float  v[CHAINS];
    float *operands = data;
    float  a = operands[CHAINS], b = operands[CHAINS + 1];

    memcpy(v, data, sizeof v);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            v[i] = v[i] * a + b;
    memcpy(data, v, sizeof v);
}

static void int8_ref(void *data, uint64_t rounds)
{
    uint32_t v[CHAINS];
    int8_t   w[CHAINS];

    memcpy(v, data, sizeof v);
    memcpy(w, (char *)data + sizeof v, sizeof w);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            v[i] += (uint32_t)((int8_t)v[i] * w[i]);
    memcpy(data, v, sizeof v);
}

static uint64_t read_ref(const uint8_t *p, size_t stride, size_t n)
{
    uint64_t sum[4] = { 0 };

    for (size_t i = 0; i < n; i += 256)
        for (size_t s = 0; s < 4; s++)
            for (size_t k = 0; k < 256; k += 8) {
                uint64_t word;
                memcpy(&word, p + s * stride + i + k, sizeof word);
                sum[s] += word;
            }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

void lm_probes_init(lm_probes *p, lm_cpu cpu)
{
    *p = (lm_probes){
        .int8 = { "plain C", int8_ref, 2 * CHAINS },
        .f32  = { "plain C", f32_ref, 2 * CHAINS },
        .read = read_ref,
    };
    (void)cpu;
#if defined(__x86_64__)
    if (cpu & LM_CPU_SSE41)
        lm_probes_init_sse41(p);
    if (cpu & LM_CPU_AVX2)
        lm_probes_init_avx2(p);
    if ((cpu & LM_CPU_AVX512) && (cpu & LM_CPU_AVX2)) {
        lm_probes_init_avx512(p);
        if (cpu & LM_CPU_AVX512_VNNI)
            lm_probes_init_avx512vnni(p);
        if (cpu & LM_CPU_AVX512_BF16)
            lm_probes_init_avx512bf16(p);
        if (cpu & LM_CPU_AMX)
            lm_probes_init_amx(p);
    }
#endif
}

void lm_probe_fill(void *data, enum lm_probe_kind kind, uint64_t seed)
{
    lm_rng r = lm_rng_stream(seed, kind);

    for (size_t i = 0; i < LM_PROBE_BYTES; i += 4) {
        uint32_t word = lm_rng_u32(&r);
        float    f    = 0.25f + 0.5f * lm_rng_float(&r);     /* a chain v a + b stays near b / (1 - a) */
        if (kind == LM_PROBE_BF16)
            word = (word & 0x807f807fu) | 0x3f003f00u;       /* ±0.5 … ±1 */
        if (kind == LM_PROBE_F32)
            memcpy(&word, &f, sizeof word);
        memcpy((char *)data + i, &word, sizeof word);
    }
}
