/* probe_avx512.c - the rate of AVX-512's float32 arithmetic, measured. */
#include "kernels/x86/probe_chains.h"

static void int8_avx512(void *data, uint64_t rounds)
{
    __m512i *p = data, w = p[TWELVE];

#define STEP(v) _mm512_maddubs_epi16(v, w)
    RUN_CHAINS(TWELVE)
#undef STEP
}

static void f32_avx512(void *data, uint64_t rounds)
{
    __m512 *p = data, a = p[TWELVE], b = p[TWELVE + 1];

#define STEP(v) _mm512_fmadd_ps(v, a, b)
    RUN_CHAINS(TWELVE)
#undef STEP
}

static uint64_t read_avx512(const uint8_t *p, size_t stride, size_t n)
{
    __m512i  s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    uint64_t out[8], sum = 0;

    for (size_t i = 0; i < n; i += 256)
        for (size_t s = 0; s < 4; s++) {
            const uint8_t *at = p + s * stride + i;
            s0 = _mm512_add_epi64(s0, _mm512_loadu_si512(at));
            s1 = _mm512_add_epi64(s1, _mm512_loadu_si512(at + 64));
            s2 = _mm512_add_epi64(s2, _mm512_loadu_si512(at + 128));
            s3 = _mm512_add_epi64(s3, _mm512_loadu_si512(at + 192));
        }
    /* The compiler's reduction would add signed numbers. */
    _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3)));
    for (size_t i = 0; i < 8; i++)
        sum += out[i];
    return sum;
}

void lm_probes_init_avx512(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ "vpmaddubsw, 512 bits", int8_avx512, 128 * TWELVE };
    p->f32  = (lm_probe_loop){ "vfmadd, 512 bits", f32_avx512, 32 * TWELVE };
    p->read = read_avx512;
}
