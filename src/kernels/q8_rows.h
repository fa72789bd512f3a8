/* q8_rows.h - the layout of rows of activations for the integer kernels.
 *
 * Codes have eight bits; a group of four blocks of 32 columns shares a scale. Blocks with outliers have
 * second bytes for a second product: most of the error of eight bits is due to a few outliers (which stay in
 * the same columns), because a scale that covers them is coarse for their neighbours. So outliers do not
 * determine a group's scale. Blocks without second bytes leave theirs unwritten.
 *
 *   x[c] = d * (low + 128 * high)
 *
 * Sums over a row are in units of the group's d: `ratio` converts them from one group to the next, and d of
 * the last group converts them back. This takes one multiplication per four blocks instead of one per block.
 *
 * Layout: head (64 bytes), the list of the blocks that have high bytes, a bit mask with one bit per block
 * (both rounded up to 64 bytes), the blocks' low bytes, their high bytes. cols is a multiple of 32. */
#ifndef LM_KERNELS_Q8_ROWS_H
#define LM_KERNELS_Q8_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One part of a block, low or high: an aligned cache line. The start of an integer sum compensates for the
 * offset of weight codes. High parts use only q, start, half_start and fours. */
typedef struct lm_q8_block {
    int8_t   q[32];
    float    d;                      /* scale of the group; NaN: the group contains a NaN or an infinity, and
                                        its codes are 0 */
    int32_t  start;                  /* -128 times the sum of q */
    int32_t  half_start[2];          /* -32 times the sum of each half of q */
    float    sum;                    /* sum of (low + 128 * high) */
    float    half_sum[2];
    union {
        float    ratio;              /* low parts: d of the previous group / d of this group, in its first
                                        block; else 1 */
        uint32_t fours;              /* high parts: bit i: columns 4 i … 4 i + 3 are not all zero */
    };
} lm_q8_block;

_Static_assert(sizeof(lm_q8_block) == 64, "a cache line");

typedef struct lm_q8_head {
    uint32_t wide;                   /* number of blocks with high parts */
    uint8_t  unused[60];
} lm_q8_head;

#define LM_Q8_GROUP 4               /* blocks that share a scale */
#define LM_Q8_OUTLIER_AT 1.6f       /* a block above this times the mean of the blocks' largest magnitudes
                                       gets high bytes */
#define LM_Q8_LEAST 1e-26f          /* rows whose largest magnitude is below this are packed as zero */
#define LM_Q8_RANGE 0x1p-30f        /* no scale is smaller than this times the largest magnitude of the row */

typedef struct lm_q8_row {
    lm_q8_head  *head;
    float       *max;                /* while a row is packed: the largest magnitude of each block */
    uint32_t    *listed;             /* in the same memory: head->wide indices of the blocks that have high
                                        bytes, ascending */
    uint64_t    *wide;
    lm_q8_block *low, *high;
} lm_q8_row;

static inline uint64_t lm_q8_mask_bytes(uint64_t cols)
{
    return (cols / 32 + 511) / 512 * 64;
}

static inline uint64_t lm_q8_list_bytes(uint64_t cols)
{
    return (cols / 32 + 15) / 16 * 64;
}

static inline lm_q8_row lm_q8_row_at(const void *x, uint64_t cols)
{
    /* As strchr: pointers into the caller's row, who may write it or not. */
    uint8_t *head = (uint8_t *)(uintptr_t)x, *list = head + sizeof(lm_q8_head),
            *wide = list + lm_q8_list_bytes(cols);
    lm_q8_block *low = (void *)(wide + lm_q8_mask_bytes(cols));

    return (lm_q8_row){ (void *)head, (void *)list, (void *)list, (void *)wide, low, low + cols / 32 };
}

/* Return the row whose low bytes begin at `low`. */
static inline lm_q8_row lm_q8_row_of_low(const void *low, uint64_t cols)
{
    return lm_q8_row_at((const uint8_t *)low - lm_q8_mask_bytes(cols) - lm_q8_list_bytes(cols) -
                            sizeof(lm_q8_head),
                        cols);
}

static inline bool lm_q8_is_wide(const lm_q8_row *r, uint64_t b)
{
    return r->wide[b / 64] >> b % 64 & 1;
}

/* Return the magnitude above which a block gets high bytes. lanes[i]: the sum of the largest magnitudes of
 * blocks b % 16 == i, in ascending order of b. */
static inline float lm_q8_top(const float lanes[16], uint64_t blocks)
{
    float sum = 0.0f;

    for (int i = 0; i < 16; i++)
        sum += lanes[i];
    return LM_Q8_OUTLIER_AT * (sum / (float)blocks);
}

/* Return the largest magnitude in a block, without the groups of four columns that exceed top. */
float lm_q8_largest_below(const float x[32], float top);

/* Choose the wide blocks and every d and ratio, from the row and r->most (NaN or infinity for a block that
 * contains one). The arithmetic is the same on every level. */
void lm_q8_choose(const lm_q8_row *r, const float *x, uint64_t blocks, bool all_wide);

/* Return 1 / d, or 0 if all codes of the group are 0. */
static inline float lm_q8_inverse(const lm_q8_row *r, uint64_t b)
{
    float d = r->low[b].d;

    return d > 0.0f ? 1.0f / d : 0.0f;
}

/* Store the sums of a block, given the sums of the codes in each half. */
static inline void lm_q8_put_sums(const lm_q8_row *r, uint64_t b, const int32_t low[2], const int32_t high[2])
{
    lm_q8_block *l = &r->low[b], *h = lm_q8_is_wide(r, b) ? &r->high[b] : NULL;

    for (int i = 0; i < 2; i++) {
        l->half_start[i] = -32 * low[i];
        if (h)
            h->half_start[i] = -32 * high[i];
        l->half_sum[i] = (float)(low[i] + 128 * high[i]);
    }
    l->start = -128 * (low[0] + low[1]);
    if (h)
        h->start = -128 * (high[0] + high[1]);
    l->sum = l->half_sum[0] + l->half_sum[1];
}

/* The bytes of a packed row, and packing in plain C, which every level's pack must match bit for bit.
 * all_wide: fifteen bits everywhere. */
uint64_t lm_q8_bytes(uint64_t cols);
void     lm_q8_pack(void *dst, const float *x, uint64_t cols, bool all_wide);
/* lm_activation.pack_rounded of every level. */
void     lm_q8_pack_rounded(void *dst, const float *x, uint64_t cols);

#endif
