/* watch.c - watch.h: epoll reports that a client has closed its end (EPOLLRDHUP); a tick finds connections
 * whose time is over.
 *
 * Ownership. Entries are slots of one array; a generation tells a slot's connections apart, so that an event
 * which epoll returned before a drop is not taken for the next connection.
 *
 * Threads. Any may add, drop and set times. `left` and `due` run under the lock, by the watch's thread or
 * lm_watch_all_due; therefore they must not call the watch. */
#include "server/front/watch.h"
#include "server/front/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"

enum { TICK_MS = 100, EVENTS = 64 };

typedef struct entry {
    void    *of;                         /* NULL: free */
    int      fd;
    uint32_t generation;
    double   due;                        /* 0: never */
} entry;

struct lm_watch {
    pthread_t       thread;
    pthread_mutex_t lock;                /* protects the entries; held while `left` and `due` run, so that
                                            a drop waits for them */
    entry          *entries;
    uint32_t       *free;                /* stack of indices */
    uint32_t        n_free, max;
    int             epoll;
    atomic_bool     ends;
    void          (*left)(void *of);
    void          (*due)(void *of);
};

static entry *find(lm_watch *w, lm_watched c)
{
    uint32_t index = (uint32_t)c - 1;

    if (!c || index >= w->max || !w->entries[index].of ||
        w->entries[index].generation != (uint32_t)(c >> 32))
        return NULL;
    return w->entries + index;
}

static void report_due(lm_watch *w)
{
    double t = lm_clock_seconds();

    for (uint32_t i = 0; i < w->max; i++) {
        entry *c = w->entries + i;

        if (!c->of || !(c->due > 0) || c->due > t)
            continue;
        c->due = 0;
        w->due(c->of);
    }
}

static void *watch(void *arg)
{
    lm_watch *w = arg;
    struct epoll_event events[EVENTS];
    double last = 0;

    while (!atomic_load(&w->ends)) {
        int n = epoll_wait(w->epoll, events, EVENTS, TICK_MS);

        pthread_mutex_lock(&w->lock);
        for (int i = 0; i < n; i++) {
            entry *c = find(w, events[i].data.u64);

            if (c)
                w->left(c->of);
        }
        if (lm_clock_seconds() - last >= 1e-3 * TICK_MS) {
            report_due(w);
            last = lm_clock_seconds();
        }
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static lm_status start(lm_watch *w, lm_error *e)
{
    int why = lm_thread_start(&w->thread, watch, w, "lamina-watch", 0);

    return why ? lm_fail(e, LM_FAILED, "connections", LM_NO_OFFSET, "cannot start a thread: error %d", why)
               : LM_OK;
}

lm_status lm_watch_new(uint32_t max, void (*left)(void *), void (*due)(void *), lm_watch **out, lm_error *e)
{
    lm_watch *w = lm_memory_zero(1, sizeof *w);

    if (w) {
        *w = (lm_watch){ .left = left, .due = due, .max = max, .epoll = epoll_create1(EPOLL_CLOEXEC) };
        w->entries = lm_memory_zero(max, sizeof *w->entries);
        w->free = lm_memory_zero(max, sizeof *w->free);
    }
    if (!w || !w->entries || !w->free || w->epoll < 0) {
        if (w) {
            lm_heap_free(w->entries);
            lm_heap_free(w->free);
            if (w->epoll >= 0)
                close(w->epoll);
        }
        lm_heap_free(w);
        return lm_fail_memory(e, "the table of connections", max * sizeof(entry));
    }
    for (uint32_t i = max; i-- > 0;)
        w->free[w->n_free++] = i;
    pthread_mutex_init(&w->lock, NULL);
    lm_status status = start(w, e);
    if (status != LM_OK) {
        atomic_store(&w->ends, true);
        pthread_mutex_destroy(&w->lock);
        close(w->epoll);
        lm_heap_free(w->entries);
        lm_heap_free(w->free);
        lm_heap_free(w);
        return status;
    }
    *out = w;
    return LM_OK;
}

void lm_watch_free(lm_watch *w)
{
    if (!w)
        return;
    atomic_store(&w->ends, true);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    close(w->epoll);
    lm_heap_free(w->entries);
    lm_heap_free(w->free);
    lm_heap_free(w);
}

lm_watched lm_watch_add(lm_watch *w, int fd, void *of)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT };
    lm_watched c = 0;

    pthread_mutex_lock(&w->lock);
    if (w->n_free) {
        uint32_t index = w->free[--w->n_free];
        entry *it = w->entries + index;

        it->of = of;
        it->fd = fd;
        it->due = 0;
        it->generation++;
        c = (uint64_t)it->generation << 32 | (index + 1);
        event.data.u64 = c;
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    pthread_mutex_unlock(&w->lock);
    return c;
}

void lm_watch_drop(lm_watch *w, lm_watched c)
{
    pthread_mutex_lock(&w->lock);
    entry *it = find(w, c);
    if (it) {
        epoll_ctl(w->epoll, EPOLL_CTL_DEL, it->fd, NULL);
        it->of = NULL;
        w->free[w->n_free++] = (uint32_t)c - 1;
    }
    pthread_mutex_unlock(&w->lock);
}

void lm_watch_until(lm_watch *w, lm_watched c, double seconds)
{
    pthread_mutex_lock(&w->lock);
    entry *it = find(w, c);
    if (it)
        it->due = seconds > 0 ? lm_clock_seconds() + seconds : 0;
    pthread_mutex_unlock(&w->lock);
}

void lm_watch_all_due(lm_watch *w)
{
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->max; i++)
        if (w->entries[i].of)
            w->due(w->entries[i].of);
    pthread_mutex_unlock(&w->lock);
}
