/* models_entries.h - what the models of a server know of each one. Only models.c and models_use.c include it.
 * All is protected by the lock of lm_models, except the state, which is atomic and changed by models.c
 * alone. */
#ifndef LM_SERVER_MODELS_ENTRIES_H
#define LM_SERVER_MODELS_ENTRIES_H

#include <pthread.h>

#include "server/models/models.h"

typedef struct lm_models_waiter { struct lm_models_waiter *next; lm_exchange *x; } lm_models_waiter;

typedef struct lm_models_entry {
    lm_service *service;
    uint32_t    users;                   /* requests that use it */
    uint32_t    expected;                /* requests that waited for it and have not been handled again yet */
    bool        closing;                 /* it is unloaded when it becomes idle: new requests wait */
    double      idle_since, keep_alive;
    uint64_t    bytes, loads, wanted_at;
    lm_models_waiter *waiting;
    char        digest[65];
} lm_models_entry;

struct lm_models {
    lm_models_options o;
    lm_models_entry *items;
    size_t          n;
    pthread_mutex_t lock;
    pthread_cond_t  change;              /* a request waits or has ended, a keep-alive changed, or the
                                            server ends */
    pthread_t       thread;
    bool            running, begun;
    atomic_bool     stops;
    uint64_t        turn;
};

static inline lm_models_entry *lm_models_entry_of(const lm_service *s)
{
    return s->models->items + s->index;
}

static inline lm_service_state lm_models_entry_state(const lm_models_entry *x)
{
    return atomic_load(&x->service->state);
}

#endif
