/* draft.h - speculative decoding: draft tokens (arXiv 2211.17192).
 *
 * Two sources: what followed the last occurrence of the same n-gram (prompt look-up), and a smaller model with the same
 * tokens. Drafts cost or save time and nothing else: every token is chosen as without them. */
#ifndef LM_RUNTIME_DRAFT_H
#define LM_RUNTIME_DRAFT_H

#include "lamina/sequence.h"
#include "runtime/generate/pace.h"

#define LM_DRAFT_MOST LM_PACE_MOST   /* draft tokens in a round */

typedef struct lm_draft {
    const lm_token *ids;             /* prompt and generated tokens … */
    size_t    n;                     /* … and its length */
    uint32_t *before;                /* [capacity]: the last place where the same two tokens ended, UINT32_MAX: none */
    size_t    capacity;              /* the longest sequence that there is memory for */
    uint32_t *last;                  /* by hash of two tokens, where they ended last; NULL: no look-up */
    uint32_t  longest;               /* repeat that is looked for */
    lm_engine  *engine;              /* of the draft model; NULL: none, or it has failed … */
    lm_error    error;               /* … for this; code LM_OK: it was not */
    uint32_t    slot;                /* its sequence */
    lm_sampler *sampler;             /* the target's: the same random draws make the same choice of similar logits */
    uint64_t    draw;                /* of the draws */
    float      *logits;              /* [n_vocab] where the models differ in it, else NULL */
    uint32_t    n_vocab, own_vocab;  /* the target's, the draft model's */
    lm_row     *rows;                /* [engine's most] */
    uint32_t    n_rows;
    lm_pace     pace;
    lm_token    tokens[LM_DRAFT_MOST];
    uint8_t     kinds[LM_DRAFT_MOST];
    uint32_t    n_drafted;
    size_t      at;                  /* the sequence's length when they were drafted */
    uint32_t    most;
} lm_draft;

/* Without a source of drafts in `o` nothing is ever drafted. */
lm_status lm_draft_open(lm_draft *d, const lm_sequence_options *o, lm_sampler *s, uint32_t n_vocab, lm_error *e);
void      lm_draft_close(lm_draft *d);

/* Memory for a sequence of `capacity` tokens: none is taken later. */
lm_status lm_draft_reserve(lm_draft *d, size_t capacity, lm_error *e);

/* Begin a sequence. `ids` are its tokens, also those to come. Touches no engine. */
void      lm_draft_begin(lm_draft *d, const lm_token *ids, size_t n);

/* Truncate the draft model's slot to at most the first `keep` tokens. */
void      lm_draft_keep(lm_draft *d, size_t keep);

/* A token was added to the sequence. */
void      lm_draft_add(lm_draft *d);

/* Process the first `upto` tokens with the draft model, as far as it has not. */
void      lm_draft_read(lm_draft *d, size_t upto);

/* At most `most` draft tokens into d->tokens. A draft engine that fails is not used again. */
void      lm_draft_propose(lm_draft *d, uint32_t most);

/* The first `accepted` of them were accepted and are part of the sequence; seconds of drafting, and of the step. */
void      lm_draft_accept(lm_draft *d, uint32_t accepted, double drafting, double step);

#endif
