/* monitor.c - a lock and two condition variables, reference counted. */
#include "schedule/monitor.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/os/condition.h"

lm_monitor *lm_monitor_new(void)
{
    lm_monitor *m = lm_alloc_zero(1, sizeof *m);

    if (!m)
        return NULL;
    atomic_init(&m->owners, 1);
    m->process = getpid();
    if (pthread_mutex_init(&m->lock, NULL) != 0) {
        lm_free(m);
        return NULL;
    }
    if (!lm_condition_open(&m->work)) {
        pthread_mutex_destroy(&m->lock);
        lm_free(m);
        return NULL;
    }
    if (!lm_condition_open(&m->done)) {
        pthread_cond_destroy(&m->work);
        pthread_mutex_destroy(&m->lock);
        lm_free(m);
        return NULL;
    }
    return m;
}

void lm_monitor_retain(lm_monitor *m)
{
    atomic_fetch_add(&m->owners, 1);
}

void lm_monitor_release(lm_monitor *m)
{
    if (!m || atomic_fetch_sub(&m->owners, 1) != 1)
        return;
    pthread_cond_destroy(&m->work);
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->lock);
    lm_free(m);
}

lm_status lm_monitor_check_process(const lm_monitor *m, lm_error *e)
{
    if (m->process == getpid())
        return LM_OK;
    return lm_fail(e, LM_FAILED, "schedule", LM_NO_OFFSET, "its thread runs in process %d, not in this one",
                   m->process);
}

void lm_monitor_notify_locked(lm_monitor *m)
{
    m->notified = true;
    pthread_cond_signal(&m->work);
}

void lm_monitor_notify(lm_monitor *m)
{
    pthread_mutex_lock(&m->lock);
    lm_monitor_notify_locked(m);
    pthread_mutex_unlock(&m->lock);
}

void lm_monitor_wait(lm_monitor *m, double until)
{
    pthread_mutex_lock(&m->lock);
    if (!m->notified)
        lm_condition_wait(&m->work, &m->lock, until);
    m->notified = false;
    pthread_mutex_unlock(&m->lock);
}
