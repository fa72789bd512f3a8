/* traced_list.c - traced_list.h: a list and counts under one lock. */
#include "server/models/traced_list.h"

#include "base/os/clock.h"
#include "base/os/condition.h"

void lm_traced_list_init(lm_traced_list *l)
{
    pthread_mutex_init(&l->lock, NULL);
    lm_condition_open(&l->change);
}

void lm_traced_list_destroy(lm_traced_list *l)
{
    pthread_cond_destroy(&l->change);
    pthread_mutex_destroy(&l->lock);
}

bool lm_traced_list_enter(lm_traced_list *l, uint32_t max)
{
    bool fits;

    pthread_mutex_lock(&l->lock);
    fits = l->n < max;
    l->n += fits;
    pthread_mutex_unlock(&l->lock);
    return fits;
}

static void change_count(lm_traced_list *l, uint32_t *count, uint32_t by)
{
    pthread_mutex_lock(&l->lock);
    *count += by;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->lock);
}

void lm_traced_list_leave(lm_traced_list *l)
{
    change_count(l, &l->n, -1u);
}

void lm_traced_list_begin(lm_traced_list *l)
{
    change_count(l, &l->running, 1);
}

void lm_traced_list_end(lm_traced_list *l)
{
    change_count(l, &l->running, -1u);
}

bool lm_traced_list_ends(const lm_traced_list *l)
{
    return atomic_load(&l->ends);
}

void lm_traced_list_add(lm_traced_list *l, lm_traced_entry *x)
{
    pthread_mutex_lock(&l->lock);
    x->next = l->first;
    l->first = x;
    pthread_mutex_unlock(&l->lock);
}

void lm_traced_list_remove(lm_traced_list *l, lm_traced_entry *x)
{
    pthread_mutex_lock(&l->lock);
    while (x->draining)
        pthread_cond_wait(&l->change, &l->lock);
    for (lm_traced_entry **at = &l->first; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    pthread_mutex_unlock(&l->lock);
}

/* Return the seconds until `until`, as lm_schedule_drain expects them. */
static double left(double seconds, double until)
{
    double rest = until - lm_clock_seconds();

    return seconds < 0 ? -1 : rest > 0 ? rest : 0;
}

/* The lock is not held while a schedule ends: requests need it, and a second call, which ends them sooner. */
bool lm_traced_list_drain(lm_traced_list *l, double seconds)
{
    double until = lm_clock_seconds() + seconds;
    bool all = true;

    pthread_mutex_lock(&l->lock);
    for (lm_traced_entry *x = l->first; x; x = x->next) {
        x->draining++;
        pthread_mutex_unlock(&l->lock);
        all &= lm_schedule_drain(x->schedule, left(seconds, until));
        pthread_mutex_lock(&l->lock);
        x->draining--;
        pthread_cond_broadcast(&l->change);
    }
    while (l->running && !atomic_load(&l->ends) && left(seconds, until) != 0)
        lm_condition_wait(&l->change, &l->lock, seconds < 0 ? -1 : until);
    all &= !l->running;
    atomic_store(&l->ends, true);        /* also of one that begins now */
    pthread_cond_broadcast(&l->change);
    while (l->running)
        pthread_cond_wait(&l->change, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return all;
}

void lm_traced_list_wait(lm_traced_list *l)
{
    pthread_mutex_lock(&l->lock);
    while (l->n)
        pthread_cond_wait(&l->change, &l->lock);
    pthread_mutex_unlock(&l->lock);
}
