/* attention_float.h - where a worker of float32 attention keeps a page and its states. A file that includes it has before it TILE and
 * HEADS, whose probabilities are kept at a time. */
#ifndef LM_KERNELS_X86_ATTENTION_FLOAT_H
#define LM_KERNELS_X86_ATTENTION_FLOAT_H

#include "kernels/x86/attention_pages.h"

/* Scratch: keys [k_dim][64], values [64][v_dim], probabilities [HEADS][64], states [2][TILE][group], what a range gives
 * [TILE][group][v_dim], queries [TILE][group][k_dim] where they are not used as they are. */
typedef struct workspace {
    float   *keys, *values, *p, *partial, *q;
    running *states;
} workspace;

static inline workspace workspace_at(const lm_kv_shape *kv, uint32_t group, void *scratch, uint64_t *bytes)
{
    workspace w;

    *bytes = 0;
    w.keys = take(scratch, bytes, (uint64_t)kv->k_dim * LM_PAGE * sizeof(float));
    w.values = take(scratch, bytes, (uint64_t)kv->v_dim * LM_PAGE * sizeof(float));
    w.p = take(scratch, bytes, HEADS * LM_PAGE * sizeof(float));
    w.states = take(scratch, bytes, 2 * TILE * (uint64_t)group * sizeof(running));
    w.partial = take(scratch, bytes, TILE * (uint64_t)group * kv->v_dim * sizeof(float));
    w.q = take(scratch, bytes, lm_hadamard_of_keys(kv) ? TILE * (uint64_t)group * kv->k_dim * sizeof(float) : 0);
    return w;
}

/* Queries are used as they are, or as keys of blocks want them. */
static inline void begin(lm_attention_args *a, const workspace *w)
{
    const uint32_t lanes = lm_hadamard_of_keys(a->kv), n = a->group * a->kv->k_dim;

    if (!lanes)
        return;
    for (uint32_t r = 0; r < a->rows; r++) {
        memcpy(w->q + (uint64_t)r * n, a->q + r * a->q_stride, n * sizeof(float));
        hadamard(w->q + (uint64_t)r * n, n, lanes);
    }
    a->q = w->q;
    a->q_stride = n;
}

#endif
