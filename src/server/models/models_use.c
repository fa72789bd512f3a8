/* models_use.c - requests use models: a model in use stays in memory, and a request that needs another one
 * waits in its list until models.c has loaded it. */
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "server/front/memory.h"
#include "server/models/models_entries.h"

static lm_use wait_for(lm_models *m, lm_models_entry *x, lm_exchange *exchange, lm_error *e)
{
    lm_models_waiter *w = lm_memory_zero(1, sizeof *w), **at = &x->waiting;

    if (!w) {
        lm_fail_memory(e, "a request that waits", sizeof *w);
        return LM_USE_FAILED;
    }
    if (!x->waiting)
        x->wanted_at = ++m->turn;
    while (*at)
        at = &(*at)->next;
    w->x = exchange;
    *at = w;
    pthread_cond_broadcast(&m->change);
    return LM_USE_LATER;
}

lm_use lm_models_use(lm_service *s, lm_exchange *x, lm_error *e)
{
    lm_models *m = s->models;
    lm_models_entry *at = lm_models_entry_of(s);
    lm_use use = LM_USE_FAILED;

    pthread_mutex_lock(&m->lock);
    bool again = lm_exchange_is_again(x) && at->expected;
    at->expected -= again;
    if (atomic_load(&m->stops))
        lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SERVER_ENDS);
    else if (lm_models_entry_state(at) == LM_SERVICE_READY && (!at->closing || again)) {
        at->users++;
        use = LM_USE_READY;
    } else if (again && lm_models_entry_state(at) == LM_SERVICE_FAILED) {
        lm_fail(e, s->error.code, NULL, LM_NO_OFFSET, "the model %s cannot be loaded: %s%s%.200s",
                s->name, s->error.where, *s->error.where ? ": " : "", s->error.message);
    } else {
        use = wait_for(m, at, x, e);
    }
    if (again)
        pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    return use;
}

void lm_models_retain(lm_service *s)
{
    pthread_mutex_lock(&s->models->lock);
    lm_models_entry_of(s)->users++;
    pthread_mutex_unlock(&s->models->lock);
}

static void release(lm_service *s, bool used)
{
    lm_models *m = s->models;
    lm_models_entry *x = lm_models_entry_of(s);

    pthread_mutex_lock(&m->lock);
    x->users--;
    if (used)
        x->idle_since = lm_clock_seconds();
    if (!x->users)
        pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
}

void lm_models_release(lm_service *s)
{
    release(s, true);
}

bool lm_models_peek(lm_service *s)
{
    bool here;

    pthread_mutex_lock(&s->models->lock);
    here = lm_models_entry_state(lm_models_entry_of(s)) == LM_SERVICE_READY;
    lm_models_entry_of(s)->users += here;
    pthread_mutex_unlock(&s->models->lock);
    return here;
}

void lm_models_unpeek(lm_service *s)
{
    release(s, false);
}

void lm_models_keep(lm_service *s, double seconds)
{
    pthread_mutex_lock(&s->models->lock);
    lm_models_entry_of(s)->keep_alive = seconds;
    pthread_cond_broadcast(&s->models->change);
    pthread_mutex_unlock(&s->models->lock);
}

void lm_models_status(lm_service *s, lm_model_status *out)
{
    static const char *const words[] = { "loading", "loaded", "loaded", "failed", "unloaded", "unloaded" };
    lm_models *m = s->models;
    const lm_models_entry *x = lm_models_entry_of(s);

    pthread_mutex_lock(&m->lock);
    *out = (lm_model_status){
        .word = words[lm_models_entry_state(x)], .bytes = x->bytes, .loads = x->loads, .users = x->users,
        .leaves = -1
    };
    if (lm_models_entry_state(x) == LM_SERVICE_ABSENT && x->waiting)
        out->word = "loading";
    if (!m->o.stays && x->keep_alive >= 0) {
        out->leaves = (x->users ? lm_clock_seconds() : x->idle_since) + x->keep_alive - lm_clock_seconds();
        out->leaves = out->leaves > 0 ? out->leaves : 0;
    }
    memcpy(out->digest, x->digest, sizeof out->digest);
    if (lm_models_entry_state(x) == LM_SERVICE_FAILED)
        snprintf(out->error, sizeof out->error, "%.200s", s->error.message);
    pthread_mutex_unlock(&m->lock);
}
