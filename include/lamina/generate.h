/* generate.h - choosing tokens, and the loop around it. */
#ifndef LAMINA_GENERATE_H
#define LAMINA_GENERATE_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sampler: names, meanings and defaults as in llama.cpp ---- */
typedef struct lm_logit_bias { lm_token id; float bias; } lm_logit_bias;

typedef struct lm_sampler_options {
    uint64_t seed;
    float    temperature;            /* 0.8; <= 0: greedy */
    float    dynatemp_range, dynatemp_exponent;        /* 0, 1 */
    int32_t  top_k;                  /* 40; <= 0: off */
    float    top_p;                  /* 0.95; 1: off */
    float    min_p;                  /* 0.05; 0: off */
    float    typical_p;              /* 1: off */
    float    top_n_sigma;            /* -1: off */
    float    xtc_probability, xtc_threshold;           /* 0: off, 0.1 */
    float    repeat_penalty;         /* 1: off */
    float    presence_penalty, frequency_penalty;      /* 0: off */
    int32_t  repeat_last_n;          /* 64; 0: off, -1: all */
    float    dry_multiplier;         /* 0: off */
    float    dry_base;               /* 1.75 */
    int32_t  dry_allowed_length;     /* 2 */
    int32_t  dry_penalty_last_n;     /* -1: all */
    const char *const *dry_breakers; /* NULL-ended strings; NULL: "\n" ":" "\"" "*" */
    int32_t  mirostat;               /* 0: off, 2: temperature and mirostat instead of all but penalties and dry */
    float    mirostat_tau, mirostat_eta;               /* 5, 0.1 */
    uint32_t min_keep;               /* 0 */
    const lm_logit_bias *bias;
    size_t   n_bias;
    const char *order;               /* "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"; NULL: that */
} lm_sampler_options;

lm_sampler_options lm_sampler_defaults(void);

typedef struct lm_sampler lm_sampler;

/* Everything is allocated here. `t` is needed only for dry_breakers; may be NULL. LM_USAGE names an impossible value or an
 * unknown word in `order`. */
lm_status lm_sampler_new(const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t, lm_sampler **out, lm_error *e);
void      lm_sampler_free(lm_sampler *s);
void      lm_sampler_reset(lm_sampler *s);                  /* forget the history */
/* Tell the history about a token (prompt tokens and chosen ones). */
void      lm_sampler_accept(lm_sampler *s, lm_token id);
/* Choose. The draw depends only on (seed, sequence, position). Does not accept. Never allocates. LM_FAILED when a logit is
 * NaN or none is finite. */
lm_status lm_sampler_pick(lm_sampler *s, const float *logits, uint64_t sequence, uint64_t position, lm_token *out, lm_error *e);

/* Natural-log probabilities of the k best tokens (after no sampler: the model's own), best first; and of `chosen`. */
typedef struct lm_logprob { lm_token id; float logprob; } lm_logprob;
float lm_logprobs(const float *logits, uint32_t n_vocab, lm_token chosen, lm_logprob *top, uint32_t k);

/* ---- one sequence, from prompt to stop ---- */
typedef enum lm_stop { LM_STOP_NONE, LM_STOP_EOS, LM_STOP_LENGTH, LM_STOP_STRING, LM_STOP_CONTEXT, LM_STOP_CANCELLED } lm_stop;
const char *lm_stop_word(lm_stop s);                        /* "eos" "length" "stop" "context" "cancelled" */

typedef struct lm_generate_options {
    uint32_t sequence;
    int64_t  max_tokens;             /* < 0: until something else stops it */
    const char *const *stops;        /* strings, NULL-ended; NULL: none. The text ends before the first match. */
    const lm_token *stop_ids;
    size_t   n_stop_ids;
    bool     ignore_eos;
    bool     special;                /* special tokens are part of the text, the ending one included */
    uint32_t chunk;                  /* prompt rows in a step; 0: the engine's most */
    uint32_t logprobs;               /* best tokens reported with each position; at most the vocabulary */
    /* Guesses of what comes next are read in one step with the token before them, which takes little longer than that token
     * alone, and kept as far as they are what is chosen anyway: ids, text, log-probabilities and the cache are the same with
     * and without them. How many are made follows from how often they were right and how long steps took; the engine's
     * logit_rows - 1 at most. */
    uint32_t draft_ngram;            /* guess what followed when the last tokens (this many at most, 2 at least) stood in the text
                                        before; 0: no */
    uint32_t draft_max;              /* most guesses in a step, up to 64; 0: 16 */
    bool     draft_always;           /* that many whenever there are so many, also where they cost time */
    lm_engine      *draft_engine;    /* where that finds none: a smaller model guesses, in sequence 0 of its engine, which before
                                        holds what an earlier generation with it left; NULL: none */
    const lm_model *draft_model;     /* that of draft_engine: lm_draft_fits */
    /* Each may be NULL. `text`: new text, whole characters. `token`: after each choice, `top` has `logprobs` entries.
     * `prefill`: prompt tokens done. A callback that returns false stops the generation (LM_STOP_CANCELLED). */
    bool   (*text)(void *arg, const char *piece, size_t size);
    bool   (*token)(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k);
    bool   (*prefill)(void *arg, size_t done, size_t total);
    void    *arg;
} lm_generate_options;

typedef struct lm_generation {
    lm_tokens ids;                   /* what was chosen, the ending token included */
    lm_text   text;                  /* what was emitted */
    lm_stop   stop;
    size_t    n_prompt, n_reused;    /* prompt tokens that were read; of which were in the cache already */
    size_t    n_drafted, n_accepted; /* guesses made; of which were right. They depend on the machine's speed, the text does not */
    double    prompt_seconds, generate_seconds;      /* the first token comes with the prompt: of n tokens n - 1 took the latter */
} lm_generation;

/* Read `prompt` (the whole conversation so far: what the sequence already holds of it, as its caller knows from the last
 * generation, is given as `reuse` positions that stay; where a window has forgotten what they need, none does), then choose
 * tokens until something stops it. The sampler is reset and told the prompt first. A cancelled step ends the generation with
 * LM_STOP_CANCELLED, a full context or cache with LM_STOP_CONTEXT; neither is an error. A cancel that comes after the last step
 * is forgotten. LM_LIMIT: the prompt itself does not fit. */
lm_status lm_generate(lm_engine *g, const lm_model *m, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                      const lm_generate_options *o, lm_generation *out, lm_error *e);
void      lm_generation_free(lm_generation *x);

/* LM_USAGE when two models do not share their tokens: each token that both have is spelled the same, and where one has more
 * (padding) they are 128 at most. */
lm_status lm_draft_fits(const lm_model *draft, const lm_model *m, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
