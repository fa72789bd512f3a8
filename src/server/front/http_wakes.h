/* http_wakes.h - connections that have something to do, so that their front's thread continues them: any
 * thread adds one, the front's thread takes them.
 *
 * Ownership. A connection is freed by its front, after lm_wakes_remove, and only while no worker has its
 * exchange. lm_wakes_release ends the work of a worker under the lock that lm_wakes_remove takes, so the
 * worker does not use the connection after it was freed. */
#ifndef LM_SERVER_HTTP_WAKES_H
#define LM_SERVER_HTTP_WAKES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Embedded in a connection; all zero. */
typedef struct lm_wake { struct lm_wake *next; bool listed; } lm_wake;

typedef struct lm_wakes {
    pthread_mutex_t lock;
    lm_wake        *first, **last;
    int             event;               /* readable when some are listed */
} lm_wakes;

bool     lm_wakes_open(lm_wakes *w);                       /* false: errno */
void     lm_wakes_close(lm_wakes *w);

void     lm_wakes_add(lm_wakes *w, lm_wake *x);
/* Clear `busy`, and add. */
void     lm_wakes_release(lm_wakes *w, lm_wake *x, atomic_bool *busy);
/* Make the event readable without an item. */
void     lm_wakes_ring(lm_wakes *w);

/* The front's thread: silence the event; take the first item (NULL: none); forget an item. */
void     lm_wakes_heard(lm_wakes *w);
lm_wake *lm_wakes_take(lm_wakes *w);
void     lm_wakes_remove(lm_wakes *w, lm_wake *x);

#endif
