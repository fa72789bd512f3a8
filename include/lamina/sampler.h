/* sampler.h - sampling. Options have the names and meanings of llama.cpp's. */
#ifndef LAMINA_SAMPLER_H
#define LAMINA_SAMPLER_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_logit_bias { lm_token id; float bias; } lm_logit_bias;

/* All zero: the defaults, which the comments give first. A number that is 0 means its default, unless
 * `literal` is set. */
typedef struct lm_sampler_options {
    uint64_t seed;                   /* 0 */
    float    temperature;            /* 0.8; negative, or with `literal` 0: greedy */
    float    dynatemp_range;         /* 0: off */
    float    dynatemp_exponent;      /* 1 */
    int32_t  top_k;                  /* 40; negative, or with `literal` 0: off */
    float    top_p;                  /* 0.95; 1: off */
    float    min_p;                  /* 0.05; with `literal`, 0: off */
    float    typical_p;              /* 1: off */
    float    top_n_sigma;            /* 0: off, as negative */
    float    xtc_probability;        /* 0: off */
    float    xtc_threshold;          /* 0.1 */
    float    repeat_penalty;         /* 1: off */
    float    presence_penalty, frequency_penalty;      /* 0: off; negative ones reward */
    int32_t  repeat_last_n;          /* 64; -1: all; with `literal`, 0: none */
    float    dry_multiplier;         /* 0: off */
    float    dry_base;               /* 1.75 */
    int32_t  dry_allowed_length;     /* 2 */
    int32_t  dry_penalty_last_n;     /* -1: all; with `literal`, 0: none */
    const char *const *dry_breakers; /* NULL-ended strings; NULL: "\n" ":" "\"" "*" */
    int32_t  mirostat;               /* 0: off, 2: mirostat and temperature replace all samplers except
                                        penalties and dry */
    float    mirostat_tau;           /* 5 */
    float    mirostat_eta;           /* 0.1 */
    uint32_t min_keep;               /* 0 */
    const lm_logit_bias *bias;
    size_t   n_bias;
    const char *order;               /* NULL:
                                        "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature" */
    bool     greedy;                 /* choose the most probable token: the same text on every run */
    bool     literal;                /* numbers that are 0 mean 0. lm_sampler_defaults sets it */
    uint64_t reserved[7];            /* zero */
} lm_sampler_options;

/* Return the defaults as numbers, with `literal` set: a number that is set to 0 afterwards means 0. */
lm_sampler_options lm_sampler_defaults(void);

/* Set the members of `o` for which the model's files have a value (general.sampling.* of GGUF,
 * generation_config.json); the others are unchanged. Return how many were set. What the user chose should be
 * set after this call. */
size_t lm_model_sampling(const lm_model *m, lm_sampler_options *o);

/* Check the numbers as lm_sampler_new does, without a vocabulary. LM_USAGE names an invalid value. */
lm_status lm_sampler_check(const lm_sampler_options *o, lm_error *e);

typedef struct lm_sampler lm_sampler;

/* Create a sampler; later calls do not allocate. `o` NULL: the defaults. `t` is only needed for dry_breakers
 * and may be NULL. LM_USAGE names an invalid value or an unknown sampler in `order`. */
lm_status lm_sampler_new(const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t,
                         lm_sampler **out, lm_error *e);
void      lm_sampler_free(lm_sampler *s);
uint32_t  lm_sampler_vocabulary(const lm_sampler *s);       /* number of logits that it expects */
void      lm_sampler_reset(lm_sampler *s);                  /* forget the history */
/* Add a token to the history (prompt tokens and sampled ones). */
void      lm_sampler_accept(lm_sampler *s, lm_token id);
/* Sample from `logits` [vocabulary]. The random draw depends only on (seed, sequence, position). Does not add
 * the token to the history. Never allocates. LM_FAILED: a logit is NaN, or none is finite. */
lm_status lm_sampler_pick(lm_sampler *s, const float *logits, uint64_t sequence, uint64_t position,
                          lm_token *out, lm_error *e);

/* Natural-log probabilities of the model, before any sampler: of the k best tokens, best first, in `top`;
 * returns that of `chosen`. If there are fewer than k tokens, the rest of `top` has id -1. */
typedef struct lm_logprob { lm_token id; float logprob; } lm_logprob;
float lm_logprobs(const float *logits, uint32_t n_vocab, lm_token chosen, lm_logprob *top, uint32_t k);

#ifdef __cplusplus
}
#endif
#endif
