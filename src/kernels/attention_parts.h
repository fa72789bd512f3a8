/* attention_parts.h - shared by the attention kernels of all instruction sets: the running softmax of a
 * query, the layout of a partial result, and the order in which partials are merged. */
#ifndef LM_KERNELS_ATTENTION_PARTS_H
#define LM_KERNELS_ATTENTION_PARTS_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* Multiply each group of `lanes` (32 or 64) lanes of x [width] by the Hadamard matrix, divided by the root of
 * `lanes`, in place. 0: do nothing. Butterflies run in ascending order of distance. */
static inline void hadamard(float *x, uint32_t width, uint32_t lanes)
{
    const float scale = lanes == 64 ? 0.125f : 0.17677669529663688f;

    for (uint32_t from = 0; lanes && from < width; from += lanes, x += lanes) {
        for (uint32_t apart = 1; apart < lanes; apart *= 2)
            for (uint32_t i = 0; i < lanes; i += 2 * apart)
                for (uint32_t k = i; k < i + apart; k++) {
                    float a = x[k], b = x[k + apart];
                    x[k] = a + b;
                    x[k + apart] = a - b;
                }
        for (uint32_t i = 0; i < lanes; i++)
            x[i] *= scale;
    }
}

/* Pack a row with its type's `pack`, after that multiplication. */
static inline void pack_row(lm_dtype type, uint32_t lanes, uint8_t *to, const float *x, uint32_t width)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    float some[64];

    if (!lanes) {
        t->pack(to, x, width);
        return;
    }
    for (uint32_t from = 0; from < width; from += lanes, to += lanes / t->block * t->bytes) {
        memcpy(some, x + from, lanes * sizeof *some);
        hadamard(some, lanes, lanes);
        t->pack(to, some, lanes);
    }
}

/* The softmax state of one query over the keys processed so far. */
typedef struct running {
    float max, sum;
} running;

#define NOTHING_SEEN ((running){ -INFINITY, 0.0f })

/* join_fn merges a query's partial result over one more range into its result so far; finish_fn completes a
 * query: it adds the sink and divides by the sum. */
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

/* Complete a query: finish, then undo the Hadamard transform of the values. */
INLINE void end_query(const lm_attention_args *a, running *s, uint32_t g, float *out, finish_fn *finish)
{
    finish(a, s, g, out);
    hadamard(out, a->kv->v_dim, lm_hadamard_of_values(a->kv));
}

/* A sum of zero means that no key was visible: the largest score always adds one. */
INLINE void join_partial(running *s, float *out, const running *partial, const float *values, uint32_t width,
                         join_fn *join)
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

INLINE void merge_partials(const lm_attention_args *a, const void *partials, uint32_t n, join_fn *join,
                           finish_fn *finish)
{
    uint64_t queries = (uint64_t)a->rows * a->group, bytes = lm_attention_partial_bytes(a->kv, queries);
    uint32_t width = a->kv->v_dim;

    for (uint32_t i = 0; i < queries; i++) {
        running s = NOTHING_SEEN;
        float *out = out_of(a, i / a->group, i % a->group);
        for (uint32_t k = 0; k < n; k++) {
            const void *partial = (const uint8_t *)partials + k * bytes;
            join_partial(&s, out, &states_of(a, partial)[i], (const float *)partial + (uint64_t)i * width,
                         width, join);
        }
        end_query(a, &s, i % a->group, out, finish);
    }
}

#endif
