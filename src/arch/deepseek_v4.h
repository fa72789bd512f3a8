/* deepseek_v4.h - the numbers of DeepSeek-V4, for the files that build its layers. */
#ifndef LM_ARCH_DEEPSEEK_V4_H
#define LM_ARCH_DEEPSEEK_V4_H

#include "arch/families.h"

/* The attention of a layer: to the keys of a window alone, or to compressed entries, too. */
enum { LM_V4_WINDOW, LM_V4_SPARSE, LM_V4_HEAVY };

enum { LM_V4_MAX_RATE = 1 << 16 };

typedef struct lm_deepseek_v4 {
    uint32_t streams, rounds;            /* of the hyper-connections */
    uint32_t wide;                       /* all streams together */
    uint32_t o_groups, o_rank;           /* equal parts of all heads, each with a product of its own to this
                                            width */
    uint32_t hash_layers;                /* first layers whose experts are listed by token: all of them in
                                            GGUF files */
    uint32_t index_heads, index_dim, index_top;      /* of the indexer */
    uint32_t rates[2];                   /* tokens of a compressed entry: sparse, heavy */
    float    eps;                        /* of the hyper-connections */
    float    limit;                      /* of the gates: lm_expert_spec */
    double   compress_base;          /* of lm_config.compress, the rotation of layers with compressed
                                            entries */
    uint8_t  kind[LM_MAX_LAYERS];
    bool     hash[LM_MAX_LAYERS];        /* experts are listed by token */
} lm_deepseek_v4;
LM_OWN_FITS(lm_deepseek_v4);

/* Attention of a layer, of its kind (deepseek_v4_compressed.c): to the keys of `window`, its spec, and to
 * entries of x, the layer's input; latent: what queries are made of. */
lm_value lm_deepseek_v4_scores(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x, lm_value latent,
                               lm_value q, lm_value k, const lm_attention_spec *window);

#endif
