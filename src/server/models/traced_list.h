/* traced_list.h - the requests of a service whose output is traced (traced.h): how many there are, and which
 * can be drained.
 *
 * Threads: any. */
#ifndef LM_SERVER_TRACED_LIST_H
#define LM_SERVER_TRACED_LIST_H

#include <pthread.h>

#include "lamina/schedule.h"

/* A request that can be drained, embedded in its owner, which removes it before it frees the schedule. */
typedef struct lm_traced_entry { struct lm_traced_entry *next; lm_schedule *schedule; } lm_traced_entry;

typedef struct lm_traced_list {
    pthread_mutex_t  lock;
    pthread_cond_t   change;             /* n has become smaller */
    uint32_t         n;                  /* requests whose memory is not freed yet */
    lm_traced_entry *first;
} lm_traced_list;

void lm_traced_list_init(lm_traced_list *l);
void lm_traced_list_destroy(lm_traced_list *l);

/* Count one more request, or return false if there are `max`. */
bool lm_traced_list_enter(lm_traced_list *l, uint32_t max);
/* The memory of a counted request is freed. */
void lm_traced_list_leave(lm_traced_list *l);

void lm_traced_list_add(lm_traced_list *l, lm_traced_entry *x);
void lm_traced_list_remove(lm_traced_list *l, lm_traced_entry *x);

/* For lm_models_drain: as lm_schedule_drain, for all of the list. */
bool lm_traced_list_drain(lm_traced_list *l, double seconds);

/* For lm_service_unload: wait until no request is counted. */
void lm_traced_list_wait(lm_traced_list *l);

#endif
