/* draft.h - speculative decoding: draft tokens (arXiv 2211.17192).
 *
 * Two sources: what followed the last occurrence of the same n-gram (prompt look-up), and a smaller model
 * with the same tokens. Drafts affect nothing but time: every token is chosen as without them. */
#ifndef LM_RUNTIME_DRAFT_H
#define LM_RUNTIME_DRAFT_H

#include "lamina/sequence.h"
#include "runtime/generate/pace.h"

#define LM_DRAFT_MAX LM_PACE_MAX     /* maximum draft tokens in a round */

typedef struct lm_draft {
    const lm_token *ids;             /* prompt and generated tokens … */
    size_t    n;                     /* … and their number */
    uint32_t *before;                /* [capacity]: the previous place where two tokens of the same hash
                                        ended, UINT32_MAX: none */
    size_t    capacity;              /* the longest sequence for which memory is allocated */
    uint32_t *last;                  /* by hash of two tokens: where they ended last; NULL: no look-up */
    uint32_t  longest;               /* longest repeat that is looked up */
    lm_engine  *engine;              /* of the draft model; NULL: none, or it has failed … */
    lm_error    error;               /* … with this error; code LM_OK: it has not failed */
    uint32_t    slot;                /* its sequence */
    lm_sampler *sampler;             /* the target's: with the same random draws, similar logits give the same
                                        choice */
    uint64_t    draw;                /* index of the random draws */
    float      *logits;              /* [n_vocab] if the draft model has a smaller vocabulary, else NULL */
    uint32_t    n_vocab, own_vocab;  /* vocabulary sizes of the target and of the draft model */
    lm_row     *rows;                /* [n_rows], the engine's maximum */
    uint32_t    n_rows;
    lm_pace     pace;
    lm_token    tokens[LM_DRAFT_MAX];
    uint8_t     kinds[LM_DRAFT_MAX];
    uint32_t    n_drafted;
    size_t      at;                  /* the sequence's length when they were drafted */
    uint32_t    max;
} lm_draft;

/* Set up drafting. If `o` has no source of drafts, nothing is ever drafted. */
lm_status lm_draft_open(lm_draft *d, const lm_sequence_options *o, lm_sampler *s, uint32_t n_vocab,
                        lm_error *e);
void      lm_draft_close(lm_draft *d);

/* Allocate memory for a sequence of `capacity` tokens: none is allocated later. */
lm_status lm_draft_reserve(lm_draft *d, size_t capacity, lm_error *e);

/* Begin a sequence. `ids` holds its n tokens and will hold those to come. Does not touch the engine. */
void      lm_draft_begin(lm_draft *d, const lm_token *ids, size_t n);

/* Truncate the draft model's slot to at most the first `keep` tokens. */
void      lm_draft_truncate(lm_draft *d, size_t keep);

/* Take note of a token that was added to the sequence. */
void      lm_draft_add(lm_draft *d);

/* Process the first `upto` tokens with the draft model, except those already processed. */
void      lm_draft_read(lm_draft *d, size_t upto);

/* Write at most `max` draft tokens to d->tokens. A draft engine that fails is not used again. */
void      lm_draft_propose(lm_draft *d, uint32_t max);

/* Count the first `accepted` draft tokens as accepted: they are in the sequence. `drafting`, `step`: seconds
 * of drafting, of the step. */
void      lm_draft_accept(lm_draft *d, uint32_t accepted, double drafting, double step);

#endif
