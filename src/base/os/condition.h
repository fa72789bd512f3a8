/* condition.h - condition variables whose waits are timed by base/os/clock.h, so that setting the machine's
 * clock neither shortens nor lengthens them. */
#ifndef LM_BASE_CONDITION_H
#define LM_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Create a condition variable; false: out of resources. Destroy it with pthread_cond_destroy. */
static inline bool lm_condition_open(pthread_cond_t *c)
{
    pthread_condattr_t a;

    if (pthread_condattr_init(&a) != 0)
        return false;
    bool made = pthread_condattr_setclock(&a, CLOCK_MONOTONIC) == 0 && pthread_cond_init(c, &a) == 0;
    pthread_condattr_destroy(&a);
    return made;
}

/* Wait once, at most until lm_clock_seconds() is `until` (negative: forever). The lock must be held. */
static inline void lm_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until)
{
    struct timespec t = { .tv_sec = (time_t)until };

    if (until < 0 || until > 1e15) {
        pthread_cond_wait(c, lock);
        return;
    }
    t.tv_nsec = (long)((until - (double)t.tv_sec) * 1e9);
    pthread_cond_timedwait(c, lock, &t);
}

#endif
