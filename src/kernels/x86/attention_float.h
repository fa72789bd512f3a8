/* attention_float.h - the scratch memory of a worker for float32 attention: a page and its states. A file
 * that includes it first defines TILE and HEADS, the number of heads whose probabilities are stored at a
 * time. */
#ifndef LM_KERNELS_X86_ATTENTION_FLOAT_H
#define LM_KERNELS_X86_ATTENTION_FLOAT_H

#include "kernels/x86/attention_pages.h"

/* Scratch: keys [k_dim][64], values [64][v_dim], probabilities [HEADS][64], states [2][TILE][group], the
 * output of a range [TILE][group][v_dim], queries [TILE][group][k_dim] if they must be transformed. */
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
    w.q = take(scratch, bytes,
               lm_hadamard_of_keys(kv) ? TILE * (uint64_t)group * kv->k_dim * sizeof(float) : 0);
    return w;
}

/* Apply the Hadamard transform to a copy of the queries if the keys are stored in blocks; else use the
 * queries in place. */
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
