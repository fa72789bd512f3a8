/* draft.h - guesses of the tokens that come next.
 *
 * Two sources: what followed the last time the end of the text stood in it (prompt look-up), and a smaller model with the same
 * tokens. Guesses cost or save time and nothing else: who asks for them chooses every token as without. */
#ifndef LM_RUNTIME_DRAFT_H
#define LM_RUNTIME_DRAFT_H

#include "lamina/generate.h"
#include "runtime/pace.h"

#define LM_DRAFT_MOST LM_PACE_MOST   /* guesses in a round */

typedef struct lm_draft {
    lm_token *ids;                   /* [capacity]: the text */
    size_t    n, capacity;
    uint32_t *before;                /* [capacity]: the last place where the same two tokens ended, UINT32_MAX: none */
    uint32_t *last;                  /* by hash of two tokens, where they ended last; NULL: no look-up */
    uint32_t  longest;               /* repeat that is looked for */
    lm_engine  *engine;              /* of the model that guesses; NULL: none */
    lm_sampler *sampler;             /* the text's: its draws make the same choice of similar logits */
    uint64_t    sequence;            /* of the draws */
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

/* All memory is taken here. Without a source of guesses in `o` nothing is ever guessed. */
lm_status lm_draft_open(lm_draft *d, const lm_generate_options *o, lm_sampler *s, uint32_t n_vocab, uint32_t context, lm_error *e);
void      lm_draft_close(lm_draft *d);

/* The text is longer by one token. */
void      lm_draft_add(lm_draft *d, lm_token id);

/* Let the guessing model read the text but for its last token; it holds `reuse` positions of it already. */
lm_status lm_draft_read(lm_draft *d, size_t reuse, lm_error *e);

/* At most `most` guesses into d->guesses. LM_CANCELLED when the guessing engine was cancelled. */
lm_status lm_draft_guess(lm_draft *d, uint32_t most, lm_error *e);

/* The first `right` of them were right and are part of the text now; seconds that guessing took, and the step. */
lm_status lm_draft_judge(lm_draft *d, uint32_t right, double guessing, double step, lm_error *e);

#endif
