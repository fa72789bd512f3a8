/* pool.c - fork and join by counters: the job number that workers watch, the ticket that chunks are taken
 * from, and how much is left to finish.
 *
 * A ticket contains the job number and how many chunks are left to take. A chunk is taken by exchanging the
 * ticket, which fails if the job has changed; the caller changes it only when every chunk is done. So a
 * worker that takes a chunk may read the job, and a late worker finds nothing. The ticket of a job for all
 * workers is marked instead, and stays until each has run it. */
#include "base/os/pool.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/os/thread.h"

#define SPIN_NS 50000              /* spinning before a thread sleeps */
#define FOR_ALL (LM_POOL_CHUNKS + 1u)         /* instead of chunks: the job is for every worker */

typedef struct worker {
    struct lm_pool *pool;
    pthread_t       thread;
    unsigned        index;
} worker;

struct lm_pool {
    unsigned    threads;
    size_t      bytes;           /* size of this object */
    bool        spins;           /* false if there are more threads than cores: spinning would only delay */
    lm_job      job;
    lm_chunk_job chunk_job;
    void       *arg;
    unsigned    chunks;
    _Atomic(lm_idle) idle;
    void       *idle_arg;
    _Alignas(64) atomic_ullong ticket;
    _Alignas(64) atomic_uint number;     /* of the job; increases by one */
    _Alignas(64) atomic_uint sleeping;
    _Alignas(64) atomic_uint left;       /* chunks or workers that have not finished */
    _Alignas(64) atomic_uint used;       /* workers below this take chunks; the others sleep until it grows */
    atomic_bool joining;                 /* the caller sleeps until all have finished */
    atomic_bool stop;
    worker      workers[];
};

static void futex_wait(atomic_uint *at, unsigned seen)
{
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *at)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Return whether *at becomes (until_equal) or stops being `value` before it is time to sleep. */
static bool spin(lm_pool *p, unsigned index, atomic_uint *at, unsigned value, bool until_equal)
{
    lm_idle idle = atomic_load_explicit(&p->idle, memory_order_acquire);
    int64_t end  = 0;

    for (unsigned i = 0; p->spins; i++) {
        if ((atomic_load_explicit(at, memory_order_acquire) == value) == until_equal)
            return true;
        if (idle && idle(p->idle_arg, index))
            continue;
        idle = NULL;
        pause_cpu();
        if (i % 64 == 63) {                              /* the length of a pause differs tenfold between
                                                            processors */
            int64_t t = lm_clock_ns();
            end       = end ? end : t + SPIN_NS;
            if (t > end)
                break;
        }
    }
    return false;
}

/* Wait until jobs use this worker, or the pool stops. */
static void wait_for_use(lm_pool *p, unsigned index)
{
    unsigned n;

    while ((n = atomic_load(&p->used)) <= index && !atomic_load(&p->stop))
        futex_wait(&p->used, n);
}

/* Wait for the next job number after `seen`. */
static unsigned wait_for_job(lm_pool *p, unsigned seen, unsigned index)
{
    unsigned n;

    wait_for_use(p, index);
    if (spin(p, index, &p->number, seen, false))
        return atomic_load_explicit(&p->number, memory_order_acquire);
    atomic_fetch_add(&p->sleeping, 1);
    while ((n = atomic_load(&p->number)) == seen)
        futex_wait(&p->number, seen);
    atomic_fetch_sub(&p->sleeping, 1);
    return n;
}

static unsigned long long ticket_of(unsigned number, unsigned chunks)
{
    return (unsigned long long)number << 32 | chunks;
}

static unsigned chunks_left(unsigned long long ticket)
{
    return (unsigned)ticket;
}

static void finish_one(lm_pool *p)
{
    if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->joining))
        futex_wake(&p->left);
}

/* Take chunks of job `number` until none is left. */
static void take_chunks(lm_pool *p, unsigned number, unsigned index)
{
    unsigned long long t = atomic_load_explicit(&p->ticket, memory_order_acquire);

    while (t >> 32 == number && chunks_left(t)) {
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        p->chunk_job(p->arg, index, p->chunks - chunks_left(t));
        finish_one(p);
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
}

/* Set the name that `top -H` and debuggers show. */
static void name_thread(unsigned index)
{
    char name[16];

    snprintf(name, sizeof name, "lamina-%u", index);
    pthread_setname_np(pthread_self(), name);
}

static void *work(void *arg)
{
    worker  *w    = arg;
    lm_pool *p    = w->pool;
    unsigned seen = 0;

    name_thread(w->index);
    for (;;) {
        seen = wait_for_job(p, seen, w->index);
        if (atomic_load(&p->stop))
            return NULL;
        unsigned long long t = atomic_load_explicit(&p->ticket, memory_order_acquire);
        if (t >> 32 != seen)
            continue;                                    /* it is over, and another has begun */
        if (chunks_left(t) == FOR_ALL) {
            p->job(p->arg, w->index, p->threads);
            finish_one(p);
        } else if (w->index < lm_pool_used(p)) {
            take_chunks(p, seen, w->index);
        }
    }
}

/* Start a job. The ticket comes first: a worker that sees the number finds it. */
static unsigned start_job(lm_pool *p, unsigned chunks, unsigned left)
{
    unsigned number = atomic_load_explicit(&p->number, memory_order_relaxed) + 1;

    atomic_store_explicit(&p->left, left, memory_order_relaxed);
    atomic_store(&p->ticket, ticket_of(number, chunks));
    atomic_store(&p->number, number);
    if (atomic_load(&p->sleeping))
        futex_wake(&p->number);
    return number;
}

static void join(lm_pool *p)
{
    unsigned left;

    if (spin(p, 0, &p->left, 0, true))
        return;
    atomic_store(&p->joining, true);
    while ((left = atomic_load(&p->left)) != 0)
        futex_wait(&p->left, left);
    atomic_store(&p->joining, false);
}

void lm_pool_use(lm_pool *p, unsigned threads)
{
    unsigned before = atomic_load_explicit(&p->used, memory_order_relaxed);

    threads = threads < 1 ? 1 : threads < p->threads ? threads : p->threads;
    if (threads == before)
        return;
    atomic_store(&p->used, threads);
    if (threads > before)
        futex_wake(&p->used);
}

unsigned lm_pool_used(const lm_pool *p)
{
    return atomic_load_explicit(&p->used, memory_order_relaxed);
}

void lm_pool_idle(lm_pool *p, lm_idle idle, void *arg)
{
    p->idle_arg = arg;
    atomic_store_explicit(&p->idle, idle, memory_order_release);
}

void lm_pool_run(lm_pool *p, lm_job job, void *arg)
{
    if (p->threads == 1) {
        job(arg, 0, 1);
        return;
    }
    lm_pool_use(p, p->threads);
    p->job = job;
    p->arg = arg;
    start_job(p, FOR_ALL, p->threads - 1);
    job(arg, 0, p->threads);
    join(p);
}

void lm_pool_run_chunks(lm_pool *p, lm_chunk_job job, void *arg, unsigned chunks)
{
    assert(chunks <= LM_POOL_CHUNKS);
    if (lm_pool_used(p) == 1 || chunks <= 1) {
        for (unsigned i = 0; i < chunks; i++)
            job(arg, 0, i);
        return;
    }
    p->chunk_job = job;
    p->arg      = arg;
    p->chunks    = chunks;
    take_chunks(p, start_job(p, chunks, chunks), 0);
    join(p);
}

lm_status lm_pool_new(unsigned threads, lm_pool **out, lm_error *e)
{
    if (threads < 1 || threads > 1024)
        return lm_fail(e, LM_USAGE, "threads", LM_NO_OFFSET, "%u threads; 1 to 1024 are possible", threads);
    size_t   bytes = (sizeof(lm_pool) + threads * sizeof(worker) + 63) & ~(size_t)63;
    lm_pool *p     = lm_alloc_aligned(bytes, 64);
    if (!p)
        return lm_fail_memory(e, "threads", bytes);
    p->bytes   = bytes;
    p->threads = 1;
    atomic_store(&p->used, threads);
    p->spins   = threads <= lm_cpu_cores();
    for (unsigned i = 1; i < threads; i++) {
        p->workers[i] = (worker){ .pool = p, .index = i };
        if (lm_thread_start(&p->workers[i].thread, work, p->workers + i, NULL, LM_COMPUTE_STACK) != 0) {
            lm_pool_free(p);
            return lm_fail(e, LM_FAILED, "threads", LM_NO_OFFSET, "cannot start thread %u of %u", i + 1,
                           threads);
        }
        p->threads = i + 1;
    }
    *out = p;
    return LM_OK;
}

void lm_pool_free(lm_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    atomic_store(&p->used, UINT_MAX);
    futex_wake(&p->used);
    start_job(p, 0, 0);
    for (unsigned i = 1; i < p->threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    lm_free_aligned(p, p->bytes);
}

unsigned lm_pool_threads(const lm_pool *p)
{
    return p->threads;
}

void lm_pool_range(uint64_t n, uint64_t grain, unsigned index, unsigned workers, uint64_t *from, uint64_t *to)
{
    uint64_t grains = n / grain + (n % grain != 0), each = grains / workers, rest = grains % workers;
    /* the first `rest` chunks have one grain more */
    uint64_t a = each * index + (index < rest ? index : rest);
    uint64_t b = a + each + (index < rest);

    *from = a < grains ? a * grain : n;
    *to   = b < grains ? b * grain : n;
}
