/* monitor.h - wakes the thread that steps. It outlives the schedule, because replies may be read after it. Any thread. */
#ifndef LM_SCHEDULE_MONITOR_H
#define LM_SCHEDULE_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct lm_monitor {
    atomic_uint     owners;
    pthread_mutex_t lock;            /* of all that other threads post */
    pthread_cond_t  work, done;      /* for the thread that steps; for those that wait for it */
    bool            notified;
    int             process;         /* that has the thread: a fork of it does not */
} lm_monitor;

lm_monitor *lm_monitor_new(void);    /* NULL: no memory */
void        lm_monitor_retain(lm_monitor *m);
void        lm_monitor_release(lm_monitor *m);   /* drop a reference */

/* LM_FAILED in a process that was forked from the one with the thread. */
lm_status lm_monitor_check_process(const lm_monitor *m, lm_error *e);

void lm_monitor_notify(lm_monitor *m);
void lm_monitor_notify_locked(lm_monitor *m);

/* Wait until it has been notified since the last wait, or this moment of base/clock.h in seconds has come (negative: none). */
void lm_monitor_wait(lm_monitor *m, double until);

#endif
