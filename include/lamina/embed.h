/* embed.h - embeddings: the last hidden state of a model after its final norm, as transformers'
 * last_hidden_state. */
#ifndef LAMINA_EMBED_H
#define LAMINA_EMBED_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_pooling {
    LM_POOLING_LAST,                 /* the last token's vector */
    LM_POOLING_MEAN,                 /* the mean of all tokens */
    LM_POOLING_NONE,                 /* one vector per token */
} lm_pooling;

typedef struct lm_embed_options {    /* all zero: the defaults */
    lm_pooling  pooling;
    bool        raw;                 /* do not normalise; else vectors have length 1, except zero vectors */
    uint32_t    sequence;            /* of the engine; emptied before and after */
    uint64_t    reserved[4];         /* zero */
} lm_embed_options;

lm_embed_options lm_embed_defaults(void);

/* Compute the embedding of `n` tokens: out [lm_engine_hidden_width], with LM_POOLING_NONE
 * [n][lm_engine_hidden_width]. `o` may be NULL. The engine needs the option `hidden`, and no logits. Results
 * do not depend on the size of steps, bit for bit. The sequence's content is discarded. LM_USAGE: no token,
 * or an engine without `hidden`; LM_LIMIT: longer than the context; other errors: as lm_engine_step. `out` is
 * written only on success, except with LM_POOLING_NONE. */
lm_status lm_embed(lm_engine *g, const lm_token *ids, size_t n, const lm_embed_options *o, float *out,
                   lm_error *e);

/* Embeddings of a sequence that a schedule processes, concurrently with others.
 *
 *   lm_pooler_new(lm_engine_hidden_width(g), n, NULL, &p, &e);              for n tokens
 *   sequence.prompt_only = true; sequence.row = lm_pooler_row; sequence.row_arg = p;    (lamina/sequence.h)
 *   lm_pooler_vector(p, out);                                               after the last row
 *
 * Used by one thread at a time. */
typedef struct lm_pooler lm_pooler;

/* LM_USAGE: width or n is 0, or LM_POOLING_NONE. `o` may be NULL; its sequence is ignored. */
lm_status lm_pooler_new(uint32_t width, size_t n, const lm_embed_options *o, lm_pooler **out, lm_error *e);
lm_status lm_pooler_row(void *pooler, size_t position, const float *logits, const float *hidden, lm_error *e);
void      lm_pooler_vector(const lm_pooler *p, float *out);      /* [width] */
void      lm_pooler_free(lm_pooler *p);

#ifdef __cplusplus
}
#endif
#endif
