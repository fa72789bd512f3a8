/* together.c - download several files in parallel and report progress. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hub/pull.h"

enum { CONNECTIONS = 4, MAX = 64 };

typedef struct crew {
    hub_pull       *p;
    hub_each       *one;
    pthread_mutex_t lock;
    pthread_cond_t  ended;           /* a file is complete, or a thread has failed */
    size_t          next;            /* index of the next file */
    uint32_t        files, files_of, working;
    lm_status       status;
    lm_error        why;             /* the first error */
} crew;

static hub_file *take(crew *c)
{
    hub_file *f = NULL;

    pthread_mutex_lock(&c->lock);
    while (!f && c->status == LM_OK && c->next < c->p->n) {
        hub_file *one = &c->p->files[c->next++];
        f             = one->wanted ? one : NULL;
    }
    pthread_mutex_unlock(&c->lock);
    return f;
}

static void *work(void *arg)
{
    crew *c = arg;

    for (hub_file *f; (f = take(c));) {
        lm_error  why    = { 0 };
        bool      missed = !f->here;
        lm_status status = c->one(c->p, f, &why);
        pthread_mutex_lock(&c->lock);
        if (status != LM_OK && c->status == LM_OK) {
            c->status           = status;
            c->why              = why;
            c->p->net.given_up  = true;          /* the next pull resumes what the other threads have
                                                    downloaded */
        }
        c->files += status == LM_OK && missed;
        pthread_cond_signal(&c->ended);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_lock(&c->lock);
    c->working--;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- progress ---- */

typedef struct pace { double at, rate; uint64_t done; bool begun; } pace;

static double seconds_now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Return the rate over the last seconds as a moving average. Bytes that existed before do not count. */
static double rate_of(pace *p, uint64_t done)
{
    double now = seconds_now(CLOCK_MONOTONIC), dt = now - p->at;

    if (!p->begun || done < p->done) {
        *p = (pace){ now, p->rate, done, true };
        return p->rate;
    }
    if (dt < 0.5)
        return p->rate;
    double rate = (double)(done - p->done) / dt;
    *p          = (pace){ now, p->rate > 0 ? 0.8 * p->rate + 0.2 * rate : rate, done, true };
    return p->rate;
}

static void show(crew *c, pace *speed)
{
    hub_pull    *p   = c->p;
    uint64_t     done = p->done;
    hub_progress now = { .done = done,
                         .of = p->missing,
                         .rate = rate_of(speed, done),
                         .files = c->files,
                         .files_of = c->files_of };

    if (p->progress)
        p->progress(p->progress_arg, &now);
}

/* The calling thread reports the progress of the others. */
static void watch(crew *c)
{
    pace speed = { 0 };

    pthread_mutex_lock(&c->lock);
    while (c->working) {
        double          until = seconds_now(CLOCK_REALTIME) + 0.1;
        struct timespec t = { .tv_sec = (time_t)until,
                              .tv_nsec = (long)((until - (double)(time_t)until) * 1e9) };
        pthread_cond_timedwait(&c->ended, &c->lock, &t);
        show(c, &speed);
    }
    pthread_mutex_unlock(&c->lock);
}

lm_status hub_together(hub_pull *p, hub_each *one, lm_error *e)
{
    crew c = { .p = p, .one = one, .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };
    pthread_t threads[MAX];
    uint32_t  n = 0, max = p->connections ? p->connections : CONNECTIONS;

    for (size_t i = 0; i < p->n; i++)
        c.files_of += p->files[i].wanted && !p->files[i].here;
    max = max > MAX ? MAX : max;
    max = max > c.files_of ? c.files_of : max;
    max = max ? max : 1;
    for (; n < max; n++) {
        pthread_mutex_lock(&c.lock);
        c.working++;
        pthread_mutex_unlock(&c.lock);
        if (pthread_create(&threads[n], NULL, work, &c) != 0)
            break;
    }
    if (n < max) {                           /* fewer threads, or the calling thread alone, are enough */
        pthread_mutex_lock(&c.lock);
        c.working--;
        pthread_mutex_unlock(&c.lock);
    }
    if (!n) {
        c.working = 1;
        work(&c);
    }
    watch(&c);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (c.status != LM_OK && e)
        *e = c.why;
    return c.status;
}
