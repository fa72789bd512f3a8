/* compressed.c - the entries of compressed attention, row by row. */
#include "runtime/ops/compressed.h"

#include <math.h>
#include <string.h>

/* One running softmax of all lanes. */
typedef struct running_mean {
    float *max, *sum, *mean;
} running_mean;

static running_mean mean_in(float *state, uint64_t lanes)
{
    return (running_mean){ state, state + lanes, state + 2 * lanes };
}

/* Begin lanes [first, last) with one value. */
static void begin(running_mean m, const float *x, const float *gate, const float *bias, uint64_t first,
                  uint64_t last)
{
    for (uint64_t i = first; i < last; i++) {
        m.max[i]  = gate[i] + bias[i];
        m.sum[i]  = 1;
        m.mean[i] = x[i];
    }
}

/* Add one value: whichever of its gate and the maximum is smaller has a factor. */
static void add(running_mean m, const float *x, const float *gate, const float *bias, uint64_t first,
                uint64_t last)
{
    for (uint64_t i = first; i < last; i++) {
        float score = gate[i] + bias[i], less = expf(-fabsf(score - m.max[i]));
        bool  above = score > m.max[i];
        float kept = above ? less : 1, added = above ? 1 : less;
        m.sum[i]  = m.sum[i] * kept + added;
        m.mean[i] = m.mean[i] * kept + added * x[i];
        m.max[i]  = above ? score : m.max[i];
    }
}

static void put(running_mean m, float *out, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i < last; i++)
        out[i] = m.mean[i] / m.sum[i];
}

static void copy(running_mean to, running_mean from, uint64_t first, uint64_t last)
{
    memcpy(to.max + first, from.max + first, (last - first) * sizeof *to.max);
    memcpy(to.sum + first, from.sum + first, (last - first) * sizeof *to.sum);
    memcpy(to.mean + first, from.mean + first, (last - first) * sizeof *to.mean);
}

void lm_compress_row(const lm_node *n, uint32_t position, const float *kv, const float *gate,
                     const float *bias, float *state, float *out, uint64_t lanes, uint64_t first,
                     uint64_t last)
{
    uint32_t     rate = n->compress.rate, slot = position % rate;
    bool         both = n->compress.overlap;
    uint64_t     later = both ? lanes : 0;           /* the lanes of the row's own block */
    running_mean next = mean_in(state, lanes), own = mean_in(state + 3 * later, lanes);

    bias += slot * (both ? 2 * lanes : lanes);
    if (both && slot == 0 && position)
        copy(own, next, first, last);                /* the block before it */
    (slot == 0 && !(both && position) ? begin : add)(own, kv + later, gate + later, bias + later, first,
                                                     last);
    if (both)
        (slot == 0 ? begin : add)(next, kv, gate, bias, first, last);
    put(own, out, first, last);
}

void lm_compress_carry(const lm_node *n, const float *from, float *to, uint64_t lanes, uint64_t first,
                       uint64_t last)
{
    for (uint32_t k = 0; from && k < (n->compress.overlap ? 6 : 3); k++)
        memcpy(to + k * lanes + first, from + k * lanes + first, (last - first) * sizeof *to);
}
