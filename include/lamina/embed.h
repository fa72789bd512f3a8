/* embed.h - texts as vectors: the last hidden state of a model, after its final norm, as transformers' last_hidden_state has it. */
#ifndef LAMINA_EMBED_H
#define LAMINA_EMBED_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_pooling {
    LM_POOLING_LAST,                 /* of the last token, which has seen all others */
    LM_POOLING_MEAN,                 /* the mean of all tokens */
    LM_POOLING_NONE,                 /* one vector for each token */
} lm_pooling;

typedef struct lm_embed_options {    /* all zero: the defaults */
    lm_pooling  pooling;
    bool        raw;                 /* vectors as they are; else each has length 1 (all zero stays so) */
    uint32_t    sequence;            /* of the engine: emptied before and after */
    uint64_t    reserved[4];         /* zero */
} lm_embed_options;

lm_embed_options lm_embed_defaults(void);

/* Read `n` tokens and write their vectors: out [lm_engine_hidden_width], with LM_POOLING_NONE [n][that]. `o` may be NULL. The engine is
 * made with `hidden`; it needs no logits, and steps are its rows at most. The same bits however they are cut. What the sequence held is
 * gone. LM_USAGE: no token, an engine without hidden states; else what lm_engine_step returns, LM_LIMIT where the text is longer than
 * the context. `out` is written on success only, but for LM_POOLING_NONE. */
lm_status lm_embed(lm_engine *g, const lm_token *ids, size_t n, const lm_embed_options *o, float *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
