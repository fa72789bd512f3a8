/* score.h - the probability of a given text under a model, token by token, and the divergence of two models
 * on it. */
#ifndef LAMINA_SCORE_H
#define LAMINA_SCORE_H

#include "lamina/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One token of the text. */
typedef struct lm_token_score {
    size_t            position;          /* in the text, from 1: the first token is not scored */
    lm_token          id;
    uint32_t          rank;              /* number of tokens that are more probable; 0: this is the most
                                            probable */
    double            logprob;           /* natural logarithm of its probability, given the tokens before
                                            it */
    const lm_logprob *top;               /* the most probable tokens, best first; valid during the call */
    uint32_t          n_top;
    uint64_t          reserved[4];   /* zero */
} lm_token_score;

typedef struct lm_score_options {
    uint32_t sequence;                   /* of the engine; its content is discarded */
    uint32_t top;                        /* number of most probable tokens per position; at most the
                                            vocabulary */
    /* Called with each token in order, in the calling thread; false ends with LM_CANCELLED. May be NULL. */
    bool   (*token)(void *arg, const lm_token_score *token);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_score_options;

/* All zero, as NULL is. */
lm_score_options lm_score_defaults(void);

typedef struct lm_score {
    size_t n_tokens;                     /* of the text; n_tokens - 1 are scored, all but the first */
    double logprob;                      /* sum over the scored tokens */
    double perplexity;                   /* exp(-logprob / (n_tokens - 1)); NaN if there are none */
    uint64_t reserved[4];            /* zero */
} lm_score;

/* Score a text of n ids: sum the log-probabilities of its tokens, given the tokens before them. A step has as
 * many rows as the engine has logits for (max_logits). LM_LIMIT: the text is longer than the context;
 * LM_USAGE: an id outside the vocabulary, or a sequence that the engine does not have. Afterwards the
 * sequence contains all tokens but the last. One call at a time per engine. */
lm_status lm_score_text(lm_engine *g, const lm_token *ids, size_t n, const lm_score_options *o, lm_score *out,
                        lm_error *e);

/* ---- two models on one text ---- */

/* One token of the text. KL: the Kullback-Leibler divergence of the model's distribution from the
 * reference's, sum p_ref ln(p_ref / p), in nats. */
typedef struct lm_token_divergence {
    size_t   position;                   /* in the text */
    lm_token id;
    bool     same_top;                   /* both models have the same most probable token */
    double   kl;
    double   logprob, reference_logprob; /* of the token in each model */
    uint64_t reserved[4];            /* zero */
} lm_token_divergence;

typedef struct lm_diverge_options {
    uint32_t sequence;                   /* of both engines; its content is discarded */
    uint32_t window;                     /* tokens per window; each window starts with an empty cache; 0: the
                                            smaller context */
    /* Called with each token in order, in the calling thread; false ends with LM_CANCELLED. May be NULL. */
    bool   (*token)(void *arg, const lm_token_divergence *token);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_diverge_options;

/* All zero, as NULL is. */
lm_diverge_options lm_diverge_defaults(void);

typedef struct lm_divergence {
    size_t n_tokens;                     /* compared: all but the first of each window */
    /* nats; percentiles are interpolated linearly */
    double mean_kl, median_kl, p90_kl, p95_kl, p99_kl, max_kl;
    size_t max_position;                 /* of the token with the largest KL */
    double same_top;                     /* share of tokens, 0 ... 1 */
    double mean_dp, rms_dp, max_dp;      /* probability of the text's token minus the reference's; max: the
                                            largest absolute difference */
    double perplexity, reference_perplexity;
    uint64_t reserved[8];            /* zero */
} lm_divergence;

/* Check that two models have the same vocabulary: the same number of logits, and the same tokens if both have
 * a tokenizer. LM_USAGE describes the first difference. */
lm_status lm_same_vocabulary(const lm_model *model, const lm_model *reference, lm_error *e);

/* Compare the predictions of two models after each token of a text of n ids (n ≥ 2). LM_USAGE: different
 * vocabularies (lm_same_vocabulary), an id outside them, fewer than two ids, a window of one; LM_LIMIT: a
 * window longer than a context. One call at a time per engine; the two engines must differ. */
lm_status lm_diverge_text(lm_engine *model, lm_engine *reference, const lm_token *ids, size_t n,
                          const lm_diverge_options *o, lm_divergence *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
