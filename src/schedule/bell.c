/* bell.c - a lock and two conditions with owners. */
#include "schedule/bell.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/condition.h"

lm_bell *lm_bell_new(void)
{
    lm_bell *b = lm_alloc_zero(1, sizeof *b);

    if (!b)
        return NULL;
    atomic_init(&b->owners, 1);
    b->process = getpid();
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        lm_free(b);
        return NULL;
    }
    if (!lm_condition_open(&b->rings)) {
        pthread_mutex_destroy(&b->lock);
        lm_free(b);
        return NULL;
    }
    if (!lm_condition_open(&b->answers)) {
        pthread_cond_destroy(&b->rings);
        pthread_mutex_destroy(&b->lock);
        lm_free(b);
        return NULL;
    }
    return b;
}

void lm_bell_own(lm_bell *b)
{
    atomic_fetch_add(&b->owners, 1);
}

void lm_bell_free(lm_bell *b)
{
    if (!b || atomic_fetch_sub(&b->owners, 1) != 1)
        return;
    pthread_cond_destroy(&b->rings);
    pthread_cond_destroy(&b->answers);
    pthread_mutex_destroy(&b->lock);
    lm_free(b);
}

lm_status lm_bell_here(const lm_bell *b, lm_error *e)
{
    if (b->process == getpid())
        return LM_OK;
    return lm_fail(e, LM_FAILED, "schedule", LM_NO_OFFSET, "its thread runs in process %d, not in this one", b->process);
}

void lm_bell_ring_locked(lm_bell *b)
{
    b->rung = true;
    pthread_cond_signal(&b->rings);
}

void lm_bell_ring(lm_bell *b)
{
    pthread_mutex_lock(&b->lock);
    lm_bell_ring_locked(b);
    pthread_mutex_unlock(&b->lock);
}

void lm_bell_wait(lm_bell *b, double until)
{
    pthread_mutex_lock(&b->lock);
    if (!b->rung)
        lm_condition_wait(&b->rings, &b->lock, until);
    b->rung = false;
    pthread_mutex_unlock(&b->lock);
}
