/* score.h - how probable a model finds a given text, token by token, and how far two models are apart on it. */
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

/* ---- two models on one text ---- */

/* One token of the text. KL: the Kullback-Leibler divergence of the model's distribution from the reference's, sum p_ref ln(p_ref / p), in
 * nats. */
typedef struct lm_token_divergence {
    size_t   position;                   /* in the text */
    lm_token id;
    bool     same_top;                   /* both find the same token the most probable */
    double   kl;
    double   logprob, reference_logprob; /* of the token, by either */
    uint64_t reserved[4];            /* zero */
} lm_token_divergence;

typedef struct lm_diverge_options {
    uint32_t sequence;                   /* of both engines, whose text is forgotten */
    uint32_t window;                     /* tokens read at a time, each window from an empty cache; 0: the smaller context */
    /* Called with each token in order; false ends with LM_CANCELLED. NULL: nobody is told. */
    bool   (*token)(void *arg, const lm_token_divergence *token);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_diverge_options;

/* All zero, as NULL is. */
lm_diverge_options lm_diverge_defaults(void);

typedef struct lm_divergence {
    size_t n_tokens;                     /* compared: all but the first of each window */
    double mean_kl, median_kl, p90_kl, p95_kl, p99_kl, max_kl;   /* nats; percentiles between neighbours are linear */
    size_t max_position;                 /* of the token with the largest */
    double same_top;                     /* share of tokens, 0 ... 1 */
    double mean_dp, rms_dp, max_dp;      /* of the text's token: its probability less that of the reference; max: the largest |change| */
    double perplexity, reference_perplexity;
    uint64_t reserved[8];            /* zero */
} lm_divergence;

/* Whether ids mean the same in both: as many logits, and the same tokens where both have a tokenizer. LM_USAGE names the first
 * difference. */
lm_status lm_same_vocabulary(const lm_model *model, const lm_model *reference, lm_error *e);

/* Read a text of n ids, two at least, into the engines of two models and compare what they expect after each. LM_USAGE: other
 * vocabularies (lm_same_vocabulary), an id outside them, fewer than two ids, a window of one; LM_LIMIT: a window longer than a context.
 * One call at a time on an engine; the two must not be the same. */
lm_status lm_diverge_text(lm_engine *model, lm_engine *reference, const lm_token *ids, size_t n, const lm_diverge_options *o,
                          lm_divergence *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
