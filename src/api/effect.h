/* effect.h - what a change of weights does to a model's expectations: an engine of given numbers, a text, and what it expected of every
 * token before anything was changed.
 *
 * One copy of the weights in float32, and the first expectations: 4 bytes for each token of the text and each of the vocabulary. */
#ifndef LM_API_EFFECT_H
#define LM_API_EFFECT_H

#include "lamina/engine.h"
#include "runtime/engine/given.h"

typedef struct lm_effect {
    lm_engine      *g;
    const lm_token *ids;
    uint32_t        chunk, chunks, n_vocab;
    float          *first;           /* [chunks × chunk][n_vocab]: logarithms of probabilities */
    double         *kl;              /* [chunks × chunk] of the last run */
} lm_effect;

/* Chunks of a text of n ids; at most `chunks`. The model's own arithmetic is float32, whatever `o` says, and `o` says threads, instruction
 * set and cache. LM_USAGE: the text is shorter than a chunk; LM_NO_FIT. */
lm_status lm_effect_new(const lm_model *m, const lm_engine_options *o, lm_given_values *values, void *arg, const lm_token *ids, size_t n,
                        uint32_t chunk, uint32_t chunks, lm_effect *out, lm_error *e);
void      lm_effect_free(lm_effect *f);

/* The first run: later ones are compared with it. */
lm_status lm_effect_begin(lm_effect *f, lm_error *e);

/* Mean divergence from the first run over chunks [from, from + n), in nats a token. */
lm_status lm_effect_kl(lm_effect *f, uint32_t from, uint32_t n, double *out, lm_error *e);

#endif
