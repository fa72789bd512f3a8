/* monitor.h - wakes the thread that steps. It outlives the schedule, because replies may be read after
 * lm_schedule_free. Any thread. */
#ifndef LM_SCHEDULE_MONITOR_H
#define LM_SCHEDULE_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct lm_monitor {
    atomic_uint     owners;
    pthread_mutex_t lock;            /* protects everything that other threads post */
    pthread_cond_t  work, done;      /* for the thread that steps; for the threads that wait for it */
    bool            notified;
    int             process;         /* ID of the process with the thread: a fork does not have it */
} lm_monitor;

lm_monitor *lm_monitor_new(void);    /* NULL: no memory */
void        lm_monitor_retain(lm_monitor *m);
void        lm_monitor_release(lm_monitor *m);   /* drop a reference */

/* LM_FAILED in a process that was forked from the one with the thread. */
lm_status lm_monitor_check_process(const lm_monitor *m, lm_error *e);

void lm_monitor_notify(lm_monitor *m);
void lm_monitor_notify_locked(lm_monitor *m);

/* Wait until it has been notified since the last wait, or until this time of base/os/clock.h in seconds
 * (negative: no limit). */
void lm_monitor_wait(lm_monitor *m, double until);

#endif
