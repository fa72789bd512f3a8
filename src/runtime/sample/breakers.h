/* breakers.h - sequence breakers of DRY: tokens that contain a breaker, or begin one that further tokens
 * complete. Finding them reads the whole vocabulary, so a set is made once and shared: it is immutable and
 * counts its owners, and the last of them frees it. */
#ifndef LM_RUNTIME_BREAKERS_H
#define LM_RUNTIME_BREAKERS_H

#include <pthread.h>
#include <stdatomic.h>

#include "lamina/sampler.h"

/* A token that begins a breaker, and the tokens that must follow it: none if it contains the whole
 * breaker. */
typedef struct lm_dry_breaker { lm_token head; uint32_t n_tail; lm_token *tail; } lm_dry_breaker;

typedef struct lm_breakers {
    atomic_uint     owners;
    lm_dry_breaker *items;       /* [n], sorted by head */
    size_t          n;
} lm_breakers;

/* Find the breakers of a vocabulary. `list`: as lm_sampler_options.dry_breakers. *out has one owner, the
 * caller. */
lm_status lm_breakers_find(const lm_tokenizer *t, uint32_t n_vocab, const char *const *list,
                           lm_breakers **out, lm_error *e);
lm_breakers *lm_breakers_retain(lm_breakers *b);         /* adds a reference */
void         lm_breakers_drop(lm_breakers *b);           /* removes a reference; may be NULL */

/* Return the breakers that begin with `id`, *n of them. */
const lm_dry_breaker *lm_breakers_of(const lm_breakers *b, lm_token id, size_t *n);

/* A cache of the set that was requested last, for one vocabulary: samplers with the same breakers share it.
 * Any thread. */
typedef struct lm_breaker_cache {
    pthread_mutex_t lock;
    lm_breakers    *set;         /* one owner; NULL: none yet */
    char          **list;        /* from which it was made, NULL-ended; NULL: the default */
    uint64_t        made;        /* number of sets made so far */
} lm_breaker_cache;

void      lm_breaker_cache_open(lm_breaker_cache *c);
void      lm_breaker_cache_close(lm_breaker_cache *c);
lm_status lm_breaker_cache_get(lm_breaker_cache *c, const lm_tokenizer *t, uint32_t n_vocab,
                               const char *const *list, lm_breakers **out, lm_error *e);

#endif
