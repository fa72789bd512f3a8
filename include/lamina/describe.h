/* describe.h - describe unpublished models by a few sizes, or by a printed module tree. Both become a
 * config.json, which is read by the same code as any other. */
#ifndef LAMINA_DESCRIBE_H
#define LAMINA_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_sizes {
    uint32_t hidden, layers, vocab;  /* 0: not given */
    uint32_t heads, kv_heads, head_dim;      /* kv_heads 0: as many as heads; head_dim 0: hidden / heads */
    uint32_t intermediate;           /* of the MLP */
    uint32_t context;                /* 0: 4096 */
    bool     tied;                   /* the head is the embedding table */
    bool     plain;                  /* an MLP of two matrices, LayerNorm; else a gated one, RMSNorm */
    bool     bias;                   /* on every product of the layers */
    bool     qkv_bias;               /* on queries, keys and values only */
    uint64_t reserved[4];            /* zero */
} lm_sizes;

lm_sizes lm_sizes_defaults(void);

/* The config.json of a decoder with these sizes. LM_USAGE names what is missing or impossible. */
lm_status lm_describe_sizes(const lm_sizes *s, lm_text *config, lm_error *e);

/* The config.json behind a printed module tree (`print(model)` of transformers). A tree lacks the number of
 * heads, tying and positions: they come from `known` (may be NULL), from a preset of the same widths, or are
 * assumed; `notes` gets one line per value. `parameters`: those of the tree, each module once. LM_BAD_MODEL
 * names the line that cannot be read, LM_UNSUPPORTED the unsupported part. */
lm_status lm_describe_tree(const char *tree, size_t n, const lm_sizes *known, lm_text *config, lm_text *notes,
                           uint64_t *parameters, lm_error *e);

/* Open a config.json in memory as a model without weights. `name` is shown in messages. */
lm_status lm_model_open_config(const char *json, size_t n, const char *name, lm_model **out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
