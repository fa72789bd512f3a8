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

/* The same of a text that something else reads: a schedule, beside other texts.
 *
 *   lm_pooler_new(lm_engine_hidden_width(g), n, NULL, &p, &e);              for a text of n tokens
 *   sequence.prompt_only = true; sequence.row = lm_pooler_row; sequence.row_arg = p;         (lamina/sequence.h)
 *   lm_pooler_vector(p, out);                                               when all its rows have been read
 *
 * Used by one thread at a time. */
typedef struct lm_pooler lm_pooler;

/* LM_USAGE: no width, no token, LM_POOLING_NONE, which pools nothing. `o` may be NULL; its sequence is not looked at. */
lm_status lm_pooler_new(uint32_t width, size_t n, const lm_embed_options *o, lm_pooler **out, lm_error *e);
lm_status lm_pooler_row(void *pooler, size_t position, const float *logits, const float *hidden, lm_error *e);
void      lm_pooler_vector(const lm_pooler *p, float *out);      /* [width] */
void      lm_pooler_free(lm_pooler *p);

#ifdef __cplusplus
}
#endif
#endif
