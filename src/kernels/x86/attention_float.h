/* attention_float.h - where a worker of float32 attention keeps a page and its states. A file that includes it has before it TILE and
 * HEADS, whose probabilities are kept at a time. */
#ifndef LM_KERNELS_X86_ATTENTION_FLOAT_H
#define LM_KERNELS_X86_ATTENTION_FLOAT_H

#include "kernels/x86/attention_pages.h"

/* Scratch: keys [k_dim][64], values [64][v_dim], probabilities [HEADS][64], states [2][TILE][group], what a range gives
 * [TILE][group][v_dim]. */
typedef struct workspace {
    float   *keys, *values, *p, *part;
    running *states;
} workspace;

static inline workspace workspace_at(const lm_kv_shape *kv, uint32_t group, void *scratch, uint64_t *bytes)
{
    uint8_t *at = scratch;
    uint64_t keys = round64((uint64_t)kv->k_dim * LM_PAGE * 4), values = round64((uint64_t)kv->v_dim * LM_PAGE * 4);
    uint64_t p = HEADS * LM_PAGE * 4, states = round64(2 * TILE * (uint64_t)group * sizeof(running));

    *bytes = keys + values + p + states + round64(TILE * (uint64_t)group * kv->v_dim * 4);
    return (workspace){
        .keys = (void *)at,
        .values = (void *)(at + keys),
        .p = (void *)(at + keys + values),
        .states = (void *)(at + keys + values + p),
        .part = (void *)(at + keys + values + p + states),
    };
}

static inline uint64_t scratch_bytes(const lm_kv_shape *kv, uint32_t group)
{
    uint64_t bytes;
    float none;

    workspace_at(kv, group, &none, &bytes);
    return bytes;
}

#endif
