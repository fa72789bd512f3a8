/* rng.h - random numbers that depend only on a seed and a position.
 *
 * Philox 4x32-10 (Salmon et al., SC'11): a block of four words from a 64-bit key and a 128-bit counter. The
 * sampler draws with (seed, sequence, position), so batches and order cannot change a token. */
#ifndef LM_BASE_RNG_H
#define LM_BASE_RNG_H

#include <stdint.h>

void lm_rng_block(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t out[4]);

/* Return a uniform number in [0, 1) with 53 bits, from the first two words. */
double lm_rng_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

/* A stream for test data and synthetic weights. */
typedef struct lm_rng { uint64_t seed, stream, at; uint32_t block[4]; } lm_rng;
lm_rng   lm_rng_stream(uint64_t seed, uint64_t stream);
uint32_t lm_rng_u32(lm_rng *r);
float    lm_rng_float(lm_rng *r);     /* uniform [0, 1) */

/* Fill out[0…n) with nearly normal numbers of mean 0 and standard deviation 1, none beyond 3.5: elements
 * first, first + step … of a sequence. An element depends on its own number alone, so pieces may be made in
 * any order. About 1 ns each. */
void lm_rng_irwin_hall(float *out, uint64_t n, uint64_t seed, uint64_t sequence, uint64_t first,
                       uint64_t step);

#endif
