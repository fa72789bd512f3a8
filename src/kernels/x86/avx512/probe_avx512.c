#include <immintrin.h>

#include "kernels/probe.h"

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
enum { N_CHAINS = 12 };

static void int8_avx512(void *data, uint64_t rounds)
{
    __m512i *p = data, w = p[N_CHAINS];

#define LOAD(i) __m512i v##i = p[i];
#define STEP(i) v##i = _mm512_maddubs_epi16(v##i, w);
#define STORE(i) p[i] = v##i;
    CHAINS(LOAD)
    for (uint64_t r = 0; r < rounds; r++) {
        CHAINS(STEP)
    }
    CHAINS(STORE)
#undef LOAD
#undef STEP
#undef STORE
}

static void f32_avx512(void *data, uint64_t rounds)
{
    float *p = data;
    __m512 a = _mm512_loadu_ps(p + 16 * N_CHAINS), b = _mm512_loadu_ps(p + 16 * N_CHAINS + 16);

#define LOAD(i) __m512 v##i = _mm512_loadu_ps(p + 16 * i);
#define STEP(i) v##i = _mm512_fmadd_ps(v##i, a, b);
#define STORE(i) _mm512_storeu_ps(p + 16 * i, v##i);
    CHAINS(LOAD)
    for (uint64_t r = 0; r < rounds; r++) {
        CHAINS(STEP)
    }
    CHAINS(STORE)
#undef LOAD
#undef STEP
#undef STORE
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
    /* The compiler's own reduction adds signed numbers. */
    _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3)));
    for (size_t i = 0; i < 8; i++)
        sum += out[i];
    return sum;
}

void lm_probes_init_avx512(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ "vpmaddubsw, 512 bits", int8_avx512, 128 * N_CHAINS };
    p->f32  = (lm_probe_loop){ "vfmadd, 512 bits", f32_avx512, 32 * N_CHAINS };
    p->read = read_avx512;
}
