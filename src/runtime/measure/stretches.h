/* stretches.h - run pieces of many texts through one engine, or through several in step, as many rows at a
 * time as fit.
 *
 * A row's logits have the same bits whatever else is in its step, so how pieces are combined does not change
 * results. */
#ifndef LM_RUNTIME_STRETCHES_H
#define LM_RUNTIME_STRETCHES_H

#include "lamina/engine.h"

/* The next `n` tokens of a sequence, which holds `at` positions (lm_engine_truncate, lm_engine_share). */
typedef struct lm_stretch {
    uint32_t        sequence;
    uint32_t        at;
    const lm_token *ids;             /* [n] */
    uint32_t        n;
    uint32_t        wanted;          /* rows from this one on are passed with their logits; n: none */
    lm_token        first;           /* processed instead of the token at position 0; negative: none */
    uint64_t        tag;             /* the caller's */
} lm_stretch;

/* Receives row `row` of a stretch, once; logits[k]: of engine k, [n_vocab], valid during the call. Called on
 * any thread, in any order. */
typedef void lm_stretch_row(void *arg, const lm_stretch *s, uint32_t row, const float *const *logits);

/* Process all stretches. `engines` have the same vocabulary and use the same sequences. Stretches are
 * processed concurrently, the first ones first, so their sequences must differ. LM_LIMIT: the cache is
 * full. */
lm_status lm_read_stretches(lm_engine *const *engines, uint32_t n_engines, const lm_stretch *s, size_t n,
                            lm_stretch_row *each, void *arg, lm_error *e);

enum { LM_MAX_ENGINES = 2 };

#endif
