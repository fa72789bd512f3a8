/* attention_parts.h - what the attention kernels of all instruction sets share: the softmax of a query so far, what a partial
 * result holds, and the order in which partials are merged. */
#ifndef LM_KERNELS_ATTENTION_PARTS_H
#define LM_KERNELS_ATTENTION_PARTS_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* The running state of one query: what it would be if the softmax ended here. */
typedef struct running {
    float max, sum;
} running;

#define NOTHING_SEEN ((running){ -INFINITY, 0.0f })

/* What a query has of one more range, to what it has of those before; the end of a query: its sink, and the division by the sum. */
typedef void join_fn(running *s, float *out, const running *partial, const float *values, uint32_t width);
typedef void finish_fn(const lm_attention_args *a, running *s, uint32_t g, float *out);

static inline float *out_of(const lm_attention_args *a, uint32_t r, uint32_t g)
{
    return a->out + r * a->out_stride + (uint64_t)g * a->kv->v_dim;
}

/* A partial: values [rows][group][v_dim], then states [rows][group]. */
static inline running *states_of(const lm_attention_args *a, const void *partial)
{
    return (running *)((float *)partial + (uint64_t)a->rows * a->group * a->kv->v_dim);
}

/* A sum of zero: nothing was seen, for the largest score adds one. */
INLINE void join_partial(running *s, float *out, const running *partial, const float *values, uint32_t width, join_fn *join)
{
    if (partial->sum == 0.0f)
        return;
    if (s->sum != 0.0f) {
        join(s, out, partial, values, width);
        return;
    }
    *s = *partial;
    memcpy(out, values, width * sizeof *out);
}

INLINE void merge_partials(const lm_attention_args *a, const void *partials, uint32_t n, join_fn *join, finish_fn *finish)
{
    uint64_t queries = (uint64_t)a->rows * a->group, bytes = lm_attention_partial_bytes(a->kv, queries);
    uint32_t width = a->kv->v_dim;

    for (uint32_t i = 0; i < queries; i++) {
        running s = NOTHING_SEEN;
        float *out = out_of(a, i / a->group, i % a->group);
        for (uint32_t k = 0; k < n; k++) {
            const void *partial = (const uint8_t *)partials + k * bytes;
            join_partial(&s, out, &states_of(a, partial)[i], (const float *)partial + (uint64_t)i * width, width, join);
        }
        finish(a, &s, i % a->group, out);
    }
}

#endif
