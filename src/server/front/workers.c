/* workers.c - workers.h: one list, one lock. An item that waits is linked by its own member; nothing is
 * allocated. While as many large items run as may, the first small one is taken. Threads: any; `work` runs
 * without the lock. */
#include "server/front/workers.h"
#include "server/front/memory.h"

#include <pthread.h>

#include "base/os/thread.h"

struct lm_workers {
    pthread_mutex_t lock;
    pthread_cond_t  some;                /* signals work or the end */
    lm_work_item   *first, **last;
    uint32_t        waiting, max, n;
    uint32_t        large, max_large;                    /* large items that are processed; how many may be */
    bool            ends;
    void          (*work)(lm_work_item *);
    pthread_t       threads[];
};

/* Remove the first item that may be processed now. NULL: there is none. */
static lm_work_item *take(lm_workers *w)
{
    for (lm_work_item **at = &w->first, *item; (item = *at); at = &item->next) {
        if (item->large && w->large == w->max_large)
            continue;
        if (!(*at = item->next))
            w->last = at;
        w->waiting--;
        w->large += item->large;
        return item;
    }
    return NULL;
}

static void *run(void *arg)
{
    lm_workers *w = arg;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        lm_work_item *item = take(w);
        bool large;

        if (!item && !w->first && w->ends)
            break;
        if (!item) {
            pthread_cond_wait(&w->some, &w->lock);
            continue;
        }
        large = item->large;             /* the item may no longer exist after its work */
        pthread_mutex_unlock(&w->lock);
        w->work(item);
        pthread_mutex_lock(&w->lock);
        w->large -= large;
        if (large)
            pthread_cond_broadcast(&w->some);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

lm_status lm_workers_new(uint32_t threads, uint32_t queue, void (*work)(lm_work_item *), lm_workers **out,
                         lm_error *e)
{
    lm_workers *w = lm_memory_zero(1, sizeof *w + threads * sizeof w->threads[0]);

    if (!w)
        return lm_fail_memory(e, "the threads of the server", sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->some, NULL);
    w->last = &w->first;
    w->max = queue;
    w->max_large = threads > 1 ? threads - 1 : 1;
    w->work = work;
    while (w->n < threads && lm_thread_start(&w->threads[w->n], run, w, "lamina-request", 0) == 0)
        w->n++;
    if (!w->n) {
        lm_workers_free(w);
        return lm_fail(e, LM_FAILED, "the server", LM_NO_OFFSET, "cannot start a thread");
    }
    *out = w;
    return LM_OK;
}

void lm_workers_free(lm_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_broadcast(&w->some);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->some);
    pthread_mutex_destroy(&w->lock);
    lm_heap_free(w);
}

static bool add(lm_workers *w, lm_work_item *item, bool limited)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = !limited || (w->waiting < w->max && !w->ends);
    if (room) {
        item->next = NULL;
        *w->last = item;
        w->last = &item->next;
        w->waiting++;
        pthread_cond_signal(&w->some);
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

bool lm_workers_add(lm_workers *w, lm_work_item *item)
{
    return add(w, item, true);
}

void lm_workers_push(lm_workers *w, lm_work_item *item)
{
    add(w, item, false);
}
