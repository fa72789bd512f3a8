/* draft.h - guesses of the tokens that come next.
 *
 * Two sources: what followed the last time the end of the text stood in it (prompt look-up), and a smaller model with the same
 * tokens. Guesses cost or save time and nothing else: who asks for them chooses every token as without. */
#ifndef LM_RUNTIME_DRAFT_H
#define LM_RUNTIME_DRAFT_H

#include "lamina/sequence.h"
#include "runtime/generate/pace.h"

#define LM_DRAFT_MOST LM_PACE_MOST   /* guesses in a round */

typedef struct lm_draft {
    const lm_token *ids;             /* the text … */
    size_t    n;                     /* … and its length */
    uint32_t *before;                /* [capacity]: the last place where the same two tokens ended, UINT32_MAX: none */
    size_t    capacity;              /* the longest text that there is memory for */
    uint32_t *last;                  /* by hash of two tokens, where they ended last; NULL: no look-up */
    uint32_t  longest;               /* repeat that is looked for */
    lm_engine  *engine;              /* of the model that guesses; NULL: none, or given up … */
    lm_error    error;               /* … for this; code LM_OK: it was not */
    uint32_t    slot;                /* its sequence */
    lm_sampler *sampler;             /* the text's: its draws make the same choice of similar logits */
    uint64_t    draw;                /* of the draws */
    float      *logits;              /* [n_vocab] where the models differ in it, else NULL */
    uint32_t    n_vocab, own_vocab;  /* the text's, the guessing model's */
    lm_row     *rows;                /* [engine's most] */
    uint32_t    n_rows;
    lm_pace     pace;
    lm_token    guesses[LM_DRAFT_MOST];
    uint8_t     kinds[LM_DRAFT_MOST];
    uint32_t    n_guesses;
    size_t      at;                  /* the text's length when they were made */
    uint32_t    most;
} lm_draft;

/* Without a source of guesses in `o` nothing is ever guessed. */
lm_status lm_draft_open(lm_draft *d, const lm_sequence_options *o, lm_sampler *s, uint32_t n_vocab, lm_error *e);
void      lm_draft_close(lm_draft *d);

/* Memory for a text of `capacity` tokens: none is taken later. */
lm_status lm_draft_reserve(lm_draft *d, size_t capacity, lm_error *e);

/* Another text. `ids` are its tokens as long as it is the text: those to come too. Touches no engine. */
void      lm_draft_begin(lm_draft *d, const lm_token *ids, size_t n);

/* Of whose first `keep` tokens at most the guessing model's slot holds what it holds. */
void      lm_draft_keep(lm_draft *d, size_t keep);

/* The text is longer by one token. */
void      lm_draft_add(lm_draft *d);

/* Let the guessing model read the first `upto` tokens, as far as it has not. */
void      lm_draft_read(lm_draft *d, size_t upto);

/* At most `most` guesses into d->guesses. A guessing engine that fails is given up. */
void      lm_draft_guess(lm_draft *d, uint32_t most);

/* The first `right` of them were right and are part of the text now; seconds that guessing took, and the step. */
void      lm_draft_judge(lm_draft *d, uint32_t right, double guessing, double step);

#endif
