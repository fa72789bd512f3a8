/* score.h - how probable a model finds a given text, token by token. */
#ifndef LAMINA_SCORE_H
#define LAMINA_SCORE_H

#include "lamina/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One token of the text. */
typedef struct lm_token_score {
    size_t            position;          /* in the text, from 1: nothing comes before the first token */
    lm_token          id;
    uint32_t          rank;              /* tokens that are more probable; 0: the model would choose this one too */
    double            logprob;           /* natural logarithm of its probability, given those before it */
    const lm_logprob *top;               /* the most probable ones, best first; valid during the call */
    uint32_t          n_top;
    uint64_t          reserved[4];   /* zero */
} lm_token_score;

typedef struct lm_score_options {
    uint32_t sequence;                   /* of the engine, whose text is forgotten */
    uint32_t top;                        /* most probable tokens told with each position; at most the vocabulary */
    /* Called with each token in order; false ends with LM_CANCELLED. NULL: nobody is told. */
    bool   (*token)(void *arg, const lm_token_score *token);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_score_options;

/* All zero, as NULL is. */
lm_score_options lm_score_defaults(void);

typedef struct lm_score {
    size_t n_tokens;                     /* of the text; the first is given, n_tokens - 1 are scored */
    double logprob;                      /* sum over those */
    double perplexity;                   /* exp(-logprob / (n_tokens - 1)); NaN where there are none */
    uint64_t reserved[4];            /* zero */
} lm_score;

/* Read a text of n ids into an engine and add up how probable each is given those before it. As many rows go into a step as
 * the engine has logits for (logit_rows). LM_LIMIT: the text is longer than the context; LM_USAGE: an id outside the
 * vocabulary, a sequence that the engine does not have. Afterwards the sequence holds the text but for its last token, which
 * nothing was asked of. One call at a time on an engine. */
lm_status lm_score_text(lm_engine *g, const lm_token *ids, size_t n, const lm_score_options *o, lm_score *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
