/* http_wakes.c - http_wakes.h: a list under a lock, and an eventfd. */
#include "server/front/http_wakes.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool lm_wakes_open(lm_wakes *w)
{
    *w = (lm_wakes){ .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
    pthread_mutex_init(&w->lock, NULL);
    w->last = &w->first;
    return w->event >= 0;
}

void lm_wakes_close(lm_wakes *w)
{
    if (w->event >= 0)
        close(w->event);
    pthread_mutex_destroy(&w->lock);
}

void lm_wakes_ring(lm_wakes *w)
{
    (void)!write(w->event, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void lm_wakes_heard(lm_wakes *w)
{
    uint64_t n;

    (void)!read(w->event, &n, sizeof n);
}

/* Requires the lock. */
static void add(lm_wakes *w, lm_wake *x)
{
    if (x->listed)
        return;
    if (!w->first)
        lm_wakes_ring(w);
    x->listed = true;
    x->next = NULL;
    *w->last = x;
    w->last = &x->next;
}

void lm_wakes_add(lm_wakes *w, lm_wake *x)
{
    pthread_mutex_lock(&w->lock);
    add(w, x);
    pthread_mutex_unlock(&w->lock);
}

void lm_wakes_release(lm_wakes *w, lm_wake *x, atomic_bool *busy)
{
    pthread_mutex_lock(&w->lock);
    atomic_store(busy, false);
    add(w, x);
    pthread_mutex_unlock(&w->lock);
}

/* Requires the lock. */
static void unlink_at(lm_wakes *w, lm_wake **at)
{
    lm_wake *x = *at;

    if (!(*at = x->next))
        w->last = at;
    x->listed = false;
}

lm_wake *lm_wakes_take(lm_wakes *w)
{
    pthread_mutex_lock(&w->lock);
    lm_wake *x = w->first;
    if (x)
        unlink_at(w, &w->first);
    pthread_mutex_unlock(&w->lock);
    return x;
}

void lm_wakes_remove(lm_wakes *w, lm_wake *x)
{
    pthread_mutex_lock(&w->lock);
    for (lm_wake **at = &w->first; x->listed && *at; at = &(*at)->next)
        if (*at == x) {
            unlink_at(w, at);
            break;
        }
    pthread_mutex_unlock(&w->lock);
}
