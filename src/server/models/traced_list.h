/* traced_list.h - the requests of a service that are traced: those whose output is (traced.h), how many there
 * are, and which can be drained; and those of the route for traces.
 *
 * Threads: any. */
#ifndef LM_SERVER_TRACED_LIST_H
#define LM_SERVER_TRACED_LIST_H

#include <pthread.h>
#include <stdatomic.h>

#include "lamina/schedule.h"

/* A request that can be drained, embedded in its owner, which removes it before it frees the schedule. */
typedef struct lm_traced_entry {
    struct lm_traced_entry *next;
    lm_schedule *schedule;
    uint32_t     draining;               /* under the list's lock: threads that drain the schedule */
} lm_traced_entry;

typedef struct lm_traced_list {
    pthread_mutex_t  lock;
    pthread_cond_t   change;             /* a count below, or of an entry, or `ends` */
    uint32_t         n;                  /* requests whose memory is not freed yet */
    lm_traced_entry *first;
    uint32_t         running;            /* requests of the route for traces */
    atomic_bool      ends;               /* they must end now */
} lm_traced_list;

void lm_traced_list_init(lm_traced_list *l);
void lm_traced_list_destroy(lm_traced_list *l);

/* Count one more request, or return false if there are `max`. */
bool lm_traced_list_enter(lm_traced_list *l, uint32_t max);
/* The memory of a counted request is freed. */
void lm_traced_list_leave(lm_traced_list *l);

void lm_traced_list_add(lm_traced_list *l, lm_traced_entry *x);
/* Returns when no thread drains its schedule. */
void lm_traced_list_remove(lm_traced_list *l, lm_traced_entry *x);

/* A request of the route for traces begins, ends; and whether it must end. */
void lm_traced_list_begin(lm_traced_list *l);
void lm_traced_list_end(lm_traced_list *l);
bool lm_traced_list_ends(const lm_traced_list *l);

/* For lm_models_drain: as lm_schedule_drain, for all of the list. Two threads may call it. */
bool lm_traced_list_drain(lm_traced_list *l, double seconds);

/* For lm_service_unload: wait until no request is counted. */
void lm_traced_list_wait(lm_traced_list *l);

#endif
