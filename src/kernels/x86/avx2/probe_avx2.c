/* probe_avx2.c - the rate of AVX2's arithmetic, measured. */
#include "kernels/x86/probe_chains.h"

#ifdef SSE41
#define CHAINS SIX
#define INT8   "pmaddubsw, 128 bits"
#define F32    "mulps and addps, 128 bits"
#else
#define CHAINS TWELVE
#define INT8   "vpmaddubsw, 256 bits"
#define F32    "vfmadd, 256 bits"
#endif

static void int8_avx2(void *data, uint64_t rounds)
{
    __m256i *p = data, w = p[TWELVE];

#define STEP(v) _mm256_maddubs_epi16(v, w)
    RUN_CHAINS(CHAINS)
#undef STEP
}

static void f32_avx2(void *data, uint64_t rounds)
{
    __m256 *p = data, a = p[TWELVE], b = p[TWELVE + 1];

#define STEP(v) _mm256_fmadd_ps(v, a, b)
    RUN_CHAINS(CHAINS)
#undef STEP
}

static __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static uint64_t read_avx2(const uint8_t *p, size_t stride, size_t n)
{
    __m256i  s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    uint64_t out[4];

    for (size_t i = 0; i < n; i += 128)
        for (size_t s = 0; s < 4; s++) {
            const uint8_t *at = p + s * stride + i;
            s0 = _mm256_add_epi64(s0, load(at));
            s1 = _mm256_add_epi64(s1, load(at + 32));
            s2 = _mm256_add_epi64(s2, load(at + 64));
            s3 = _mm256_add_epi64(s3, load(at + 96));
        }
    s0 = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
    _mm256_storeu_si256((__m256i *)out, s0);
    return out[0] + out[1] + out[2] + out[3];
}

void lm_probes_init_avx2(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ INT8, int8_avx2, 64 * CHAINS };
    p->f32  = (lm_probe_loop){ F32, f32_avx2, 16 * CHAINS };
    p->read = read_avx2;
}
