/* traced_list.c - traced_list.h: a list and a count under one lock. */
#include "server/models/traced_list.h"

void lm_traced_list_init(lm_traced_list *l)
{
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->change, NULL);
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

void lm_traced_list_leave(lm_traced_list *l)
{
    pthread_mutex_lock(&l->lock);
    l->n--;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->lock);
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
    for (lm_traced_entry **at = &l->first; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    pthread_mutex_unlock(&l->lock);
}

bool lm_traced_list_drain(lm_traced_list *l, double seconds)
{
    bool all = true;

    pthread_mutex_lock(&l->lock);
    for (lm_traced_entry *x = l->first; x; x = x->next)
        all &= lm_schedule_drain(x->schedule, seconds);
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
