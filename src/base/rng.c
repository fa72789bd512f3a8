/* rng.c - Philox 4x32-10. */
#include "base/rng.h"

static void round_once(uint32_t c[4], const uint32_t k[2])
{
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t n[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                      (uint32_t)a };

    for (int i = 0; i < 4; i++)
        c[i] = n[i];
}

void lm_rng_block(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t out[4])
{
    uint32_t k[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t c[4] = { (uint32_t)position, (uint32_t)(position >> 32), (uint32_t)sequence,
                      (uint32_t)(sequence >> 32) };

    for (int i = 0; i < 10; i++) {
        round_once(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

double lm_rng_uniform(uint64_t seed, uint64_t sequence, uint64_t position)
{
    uint32_t b[4];

    lm_rng_block(seed, sequence, position, b);
    return (double)(((uint64_t)b[0] << 32 | b[1]) >> 11) * 0x1p-53;
}

lm_rng lm_rng_stream(uint64_t seed, uint64_t stream)
{
    return (lm_rng){ .seed = seed, .stream = stream };
}

uint32_t lm_rng_u32(lm_rng *r)
{
    if (r->at % 4 == 0)
        lm_rng_block(r->seed, r->stream, r->at / 4, r->block);
    return r->block[r->at++ % 4];
}

float lm_rng_float(lm_rng *r)
{
    return (float)(lm_rng_u32(r) >> 8) * 0x1p-24f;
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), Stafford's variant 13. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* The sum of four 16-bit uniforms: variance 4 (2^32 - 1) / 12. */
void lm_rng_irwin_hall(float *out, uint64_t n, uint64_t seed, uint64_t sequence, uint64_t first,
                       uint64_t step)
{
    const float    deviation = 37837.2268f;
    const uint64_t golden    = 0x9E3779B97F4A7C15u;
    uint64_t       key       = mix(seed + mix(sequence + golden)) + first * golden;

    for (uint64_t i = 0; i < n; i++, key += step * golden) {
        uint64_t x   = mix(key);
        int32_t  sum = (int32_t)((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48));
        out[i]       = (float)(sum - 131070) * (1 / deviation);
    }
}
