/* effect.h - how a change of weights affects the predictions of a model: an engine with given values, a text,
 * and the predictions for every token before the change.
 *
 * Memory: one copy of the weights in float32, and the first predictions, 4 bytes per token of the text and
 * vocabulary entry. */
#ifndef LM_API_EFFECT_H
#define LM_API_EFFECT_H

#include "lamina/engine.h"
#include "runtime/engine/caller_weights.h"

typedef struct lm_effect {
    lm_engine      *g;
    const lm_token *ids;
    uint32_t        chunk, chunks, n_vocab;
    float          *first;           /* [chunks × chunk][n_vocab]: log probabilities */
    double         *kl;              /* [chunks × chunk], last run */
} lm_effect;

/* Create an engine for a text of n ids, split into at most `chunks` chunks. It computes in float32 regardless
 * of `o`, which sets the threads, the instruction set and the cache. LM_USAGE: the text is shorter than a
 * chunk; LM_NO_FIT. */
lm_status lm_effect_new(const lm_model *m, const lm_engine_options *o, lm_caller_weights *values, void *arg,
                        const lm_token *ids, size_t n, uint32_t chunk, uint32_t chunks, lm_effect *out,
                        lm_error *e);
void      lm_effect_free(lm_effect *f);

/* Do the first run, with which later runs are compared. */
lm_status lm_effect_begin(lm_effect *f, lm_error *e);

/* Compute the mean divergence from the first run over chunks [from, from + n), in nats per token. */
lm_status lm_effect_kl(lm_effect *f, uint32_t from, uint32_t n, double *out, lm_error *e);

#endif
