/* q8_rows.h - rows of activations as the integer kernels read them.
 *
 * Blocks of 32 columns hold eight-bit codes and a scale. Blocks that stand out of their row hold fifteen-bit codes instead, each
 * as two bytes for two byte products: most of the error of eight bits comes from few of them (a row's outliers keep to the same
 * columns), and with two products there the divergence is less than half of what eight bits everywhere cost. In the other
 * blocks the second bytes are zero, so it is exact to compute or to leave out their products.
 *
 *   x[c] = d * (high + low / 128)
 *
 * Layout: head (64 bytes), one bit for each block that has low bytes (rounded up to 64 bytes), the blocks' high parts, their
 * low parts. cols is a multiple of 32. */
#ifndef LM_KERNELS_Q8_ROWS_H
#define LM_KERNELS_Q8_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One part of a block: a cache line. Offsets of weight codes are taken back by where an integer sum starts. */
typedef struct lm_q8_block {
    int8_t  q[32];
    float   d;                       /* of the block; NaN or infinity: it has one, and no codes. Low parts have what ends here: */
    int32_t start;                   /* -8 times the sum of q */
    int32_t half_start[2];           /* -4 times the sum of each 16 */
    float   sum;                     /* d * sum of (high + low / 128) */
    float   half_sum[2];
    int32_t unused;
} lm_q8_block;

_Static_assert(sizeof(lm_q8_block) == 64, "a cache line");

typedef struct lm_q8_head {
    uint32_t wide;                   /* blocks with low parts */
    uint8_t  unused[60];
} lm_q8_head;

#define LM_Q8_STANDS_OUT 1.7        /* times the root mean square of the blocks' largest magnitudes */
#define LM_Q8_LEAST 1e-32f           /* blocks whose largest magnitude is below this are packed as zero */

typedef struct lm_q8_row {
    lm_q8_head  *head;
    uint64_t    *wide;
    lm_q8_block *high, *low;
} lm_q8_row;

static inline uint64_t lm_q8_mask_bytes(uint64_t cols)
{
    return (cols / 32 + 511) / 512 * 64;
}

static inline lm_q8_row lm_q8_row_at(const void *x, uint64_t cols)
{
    uint8_t *p = (uint8_t *)(uintptr_t)x;
    uint64_t blocks = cols / 32 * sizeof(lm_q8_block);

    return (lm_q8_row){
        .head = (void *)p,
        .wide = (void *)(p + 64),
        .high = (void *)(p + 64 + lm_q8_mask_bytes(cols)),
        .low  = (void *)(p + 64 + lm_q8_mask_bytes(cols) + blocks),
    };
}

static inline bool lm_q8_is_wide(const lm_q8_row *r, uint64_t b)
{
    return r->wide[b / 64] >> b % 64 & 1;
}

/* Choose which blocks are wide and every d, from the largest magnitudes, which stand in high[b].d. The same arithmetic on every
 * level. */
void lm_q8_choose(const lm_q8_row *r, uint64_t blocks, bool all_wide);

/* 1 / d, or 0 where there are no codes: codes are x times this, high parts for themselves, times 128 for both. */
static inline float lm_q8_inverse(const lm_q8_row *r, uint64_t b)
{
    float d = r->high[b].d;

    return d > 0.0f && d < INFINITY ? 1.0f / d : 0.0f;
}

/* The sums of a block from those of its codes in each half. */
static inline void lm_q8_put_sums(const lm_q8_row *r, uint64_t b, const int32_t high[2], const int32_t low[2])
{
    lm_q8_block *h = &r->high[b], *l = &r->low[b];

    for (int i = 0; i < 2; i++) {
        h->half_start[i] = -4 * high[i];
        l->half_start[i] = -4 * low[i];
        h->half_sum[i] = h->d * ((float)high[i] + (float)low[i] * 0.0078125f);
    }
    h->start = -8 * (high[0] + high[1]);
    l->start = -8 * (low[0] + low[1]);
    h->sum = h->d * ((float)(high[0] + high[1]) + (float)(low[0] + low[1]) * 0.0078125f);
}

/* In plain C: what every level's pack must give, bit for bit. all_wide: fifteen bits everywhere. */
uint64_t lm_q8_bytes(uint64_t cols);
void     lm_q8_pack(void *dst, const float *x, uint64_t cols, bool all_wide);

#endif
