/* bell.h - how other threads tell the one that steps that there is something to do. It outlives the schedule: replies may
 * be read after it. */
#ifndef LM_SCHEDULE_BELL_H
#define LM_SCHEDULE_BELL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct lm_bell {
    atomic_uint     owners;
    pthread_mutex_t lock;            /* of all that other threads hand over */
    pthread_cond_t  rings, answers;  /* something to do; something was done */
    bool            rung;
    int             process;         /* that has the thread: a fork of it has none */
} lm_bell;

lm_bell *lm_bell_new(void);          /* NULL: no memory */
void     lm_bell_own(lm_bell *b);
void     lm_bell_free(lm_bell *b);   /* one owner less */

/* LM_FAILED in a process that was forked from the one with the thread. */
lm_status lm_bell_here(const lm_bell *b, lm_error *e);

void lm_bell_ring(lm_bell *b);
void lm_bell_ring_locked(lm_bell *b);

/* Until it has been rung since the last wait, or this moment of base/clock.h in seconds has come (negative: none). */
void lm_bell_wait(lm_bell *b, double until);

#endif
