/* sampler.h - what the parts of the sampler share. The options and their meaning are public:
 * lamina/sampler.h.
 *
 * A pick turns the logits into candidates, lets a chain of stages reweigh and drop some, and draws one of the
 * rest. Every stage keeps the candidates in one order: by logit, best first, the lower id first among equals.
 * That order is total, so no result depends on how a sort treats ties. */
#ifndef LM_RUNTIME_SAMPLER_H
#define LM_RUNTIME_SAMPLER_H

#include "lamina/sampler.h"
#include "runtime/sample/breakers.h"

typedef struct lm_candidate {
    lm_token id;
    float    logit;              /* never NaN, never infinite */
    double   p;                  /* of the last lm_candidates_softmax */
} lm_candidate;

typedef struct lm_candidates {
    lm_candidate *items, *spare; /* [capacity] each; `spare` is the sorts' second buffer */
    size_t        n;
    bool          sorted;        /* best logit first, lower id first among equals */
} lm_candidates;

/* ---- candidates.c ---- */
void   lm_candidates_sort(lm_candidates *c);
enum { LM_HEAP_MAX = 1024 };
void   lm_candidates_best(lm_candidates *c, size_t k);          /* keep the k best, sorted */
/* List the k best of n logits, 1 ≤ k ≤ LM_HEAP_MAX, unsorted, without those of -inf. Return n, or the index
 * of a NaN or +inf. */
size_t lm_candidates_list_best(lm_candidates *c, const float *logits, size_t n, size_t k);
void   lm_candidates_softmax(lm_candidates *c);                 /* fills p; keeps the order */
double lm_candidates_entropy(const lm_candidates *c);           /* nats, of p */
/* Order `n` items by p, smallest first, lower id first among equals. `spare` has room for n. */
void   lm_candidates_sort_by_p(lm_candidate *items, lm_candidate *spare, size_t n);

/* ---- truncation.c: each keeps at least one candidate ---- */
void lm_cut_top_k(lm_candidates *c, int32_t k);
void lm_cut_top_p(lm_candidates *c, double p, size_t min_keep);
void lm_cut_min_p(lm_candidates *c, double p, size_t min_keep);
void lm_cut_typical(lm_candidates *c, double p, size_t min_keep);
void lm_cut_top_n_sigma(lm_candidates *c, double n);
void lm_cut_xtc(lm_candidates *c, double threshold, size_t min_keep);
/* mirostat: drops those with a surprise above `bits` */
void lm_cut_surprisal(lm_candidates *c, double bits);

/* ---- repetition.c: earlier tokens ---- */

typedef struct lm_history {
    lm_token *ring;              /* [capacity], the newest at (at - 1) */
    size_t    capacity, at, n;
    uint32_t *count;             /* [n_vocab] occurrences in the last `window` tokens */
    size_t    window;            /* 0: count everything since the reset */
    size_t    n_vocab;

    /* DRY only */
    uint32_t *match;             /* [capacity] Z array of the reversed history */
    uint32_t *longest;           /* [n_vocab] longest repeat that the token would continue; zero between
                                    picks */
    lm_breakers *breakers;       /* one owner; NULL: none */
} lm_history;

/* Maximum number of tokens in the history: beyond any context in use. */
#define LM_HISTORY_MAX (UINT32_C(1) << 20)

bool      lm_history_penalises(const lm_sampler_options *o);
bool      lm_history_has_dry(const lm_sampler_options *o);
/* `breakers`: shared; NULL: none. */
lm_status lm_history_init(lm_history *h, const lm_sampler_options *o, uint32_t n_vocab, lm_breakers *breakers,
                          lm_error *e);
void      lm_history_free(lm_history *h);
void      lm_history_reset(lm_history *h);
void      lm_history_add(lm_history *h, lm_token id);
void      lm_history_penalise(const lm_history *h, const lm_sampler_options *o, lm_candidates *c);
void      lm_history_dry(lm_history *h, const lm_sampler_options *o, lm_candidates *c);

/* ---- sampler_options.c ---- */

/* Return literal options: defaults are filled in, greedy is temperature 0, and -1 as a length means all. */
lm_sampler_options lm_sampler_resolve(const lm_sampler_options *o);

/* ---- sampler.c ---- */

/* lm_sampler_new in two parts. lm_sampler_prepare reads and checks the options and takes little memory;
 * lm_sampler_open allocates what grows with the vocabulary and the history, and the sampler begins empty.
 * Before lm_sampler_open only lm_sampler_reset and lm_sampler_accept, which have no effect, and
 * lm_sampler_free may be called. `cache` (may be NULL) provides the breakers. */
lm_status lm_sampler_prepare(const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t,
                             lm_breaker_cache *cache, lm_sampler **out, lm_error *e);
lm_status lm_sampler_open(lm_sampler *s, lm_error *e);

/* Return, or restore, the state of a sampler in addition to its history: the surprise that mirostat allows
 * next, bits; NaN: no mirostat. Restoring has no effect with NaN, or without mirostat. */
double lm_sampler_surprisal(const lm_sampler *s);
void   lm_sampler_resume(lm_sampler *s, double surprise);

/* Compute the candidates that a pick would draw from, with their probabilities; for tests and explanations.
 * Valid until the sampler is next used. */
lm_status lm_sampler_shape(lm_sampler *s, const float *logits, uint64_t sequence, uint64_t position,
                           const lm_candidates **out, lm_error *e);

/* Return log-probabilities like lm_logprobs, but of the last pick: with which the token was drawn among the
 * candidates that were left. */
float lm_sampler_logprobs(const lm_sampler *s, lm_token id, lm_logprob *top, uint32_t k);

#endif
