/* pool.c - every worker runs every job once, jobs see what previous jobs wrote, idle pools sleep. */
#include "unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "base/os/pool.h"

enum { MAX = 8 };

typedef struct tally {
    unsigned runs[MAX];          /* not atomic: one per worker; read by the next job and the caller */
    unsigned sum_seen[MAX];
    unsigned workers;
    atomic_uint others;
} tally;

static void count(void *arg, unsigned worker, unsigned workers)
{
    tally *t = arg;

    t->sum_seen[worker] = 0;
    t->runs[worker]++;
    if (worker == 0)
        t->workers = workers;
    atomic_fetch_add(&t->others, 1);
}

/* Read what all workers wrote in the previous job. */
static void look(void *arg, unsigned worker, unsigned workers)
{
    tally   *t   = arg;
    unsigned sum = 0;

    for (unsigned i = 0; i < workers; i++)
        sum += t->runs[i];
    t->sum_seen[worker] = sum;
}

static void every_worker_once(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= MAX; threads++) {
        tally    t = { 0 };
        lm_pool *p = NULL;
        assert_int_equal(lm_pool_new(threads, &p, NULL), LM_OK);
        assert_int_equal(lm_pool_threads(p), threads);
        for (unsigned i = 1; i <= 300; i++) {
            lm_pool_run(p, count, &t);
            assert_int_equal(t.others, i * threads);     /* all are done when run returns */
            lm_pool_run(p, look, &t);
            for (unsigned w = 0; w < threads; w++) {
                assert_int_equal(t.runs[w], i);
                assert_int_equal(t.sum_seen[w], i * threads);
            }
            if (i % 100 == 0)
                usleep(1000);                            /* long enough for all to fall asleep */
        }
        assert_int_equal(t.workers, threads);
        lm_pool_free(p);
    }
    lm_pool_free(NULL);
}

/* A slow worker makes the caller sleep; a slow caller makes workers sleep. */
static void slow(void *arg, unsigned worker, unsigned workers)
{
    (void)workers;
    if (worker == *(unsigned *)arg)
        usleep(500);
}

static void sleeping_threads_are_woken(void **state)
{
    lm_pool *p;

    (void)state;
    assert_int_equal(lm_pool_new(3, &p, NULL), LM_OK);
    for (unsigned i = 0; i < 200; i++) {
        unsigned who = i % 3;
        lm_pool_run(p, slow, &who);
    }
    lm_pool_free(p);
}

typedef struct share_tally {
    atomic_uint runs[200], all;
    unsigned    slow;                /* this share is slow */
} share_tally;

static void count_share(void *arg, unsigned worker, unsigned chunk)
{
    share_tally *t = arg;

    (void)worker;
    if (chunk == t->slow)
        usleep(300);
    atomic_fetch_add(&t->runs[chunk], 1);
    atomic_fetch_add(&t->all, 1);
}

/* Run jobs of both kinds alternately, so that workers start some of them late. */
static void every_part_once(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= MAX; threads++) {
        share_tally t = { .slow = 1000 };
        tally      w = { 0 };
        unsigned   all = 0;
        lm_pool   *p = NULL;
        assert_int_equal(lm_pool_new(threads, &p, NULL), LM_OK);
        for (unsigned i = 1; i <= 300; i++) {
            unsigned chunks = i % 40 + 1;
            t.slow = i % 50 == 0 ? i % 7 : 1000;
            lm_pool_run_chunks(p, count_share, &t, chunks);
            all += chunks;
            assert_int_equal(t.all, all);
            if (i % 3 == 0)
                lm_pool_run(p, count, &w);
            if (i % 100 == 0)
                usleep(1000);
        }
        for (unsigned u = 0, expected; u < 40; u++) {
            expected = 0;
            for (unsigned i = 1; i <= 300; i++)
                expected += i % 40 + 1 > u;
            assert_int_equal(t.runs[u], expected);
        }
        assert_int_equal(w.others, 100 * threads);
        lm_pool_free(p);
    }
}

static void add_share(void *arg, unsigned worker, unsigned chunk)
{
    (void)worker;
    atomic_fetch_add((atomic_ullong *)arg, chunk + 1ull);
}

/* Counts of shares from 0 to more than 16 bits work, and jobs before and after them run completely. */
static void any_number_of_parts(void **state)
{
    static const unsigned counts[] = { 0, 2, 0, 65535, 65536, 65537, 0, 200000, 3 };

    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        lm_pool *p = NULL;
        tally    t = { 0 };
        assert_int_equal(lm_pool_new(threads, &p, NULL), LM_OK);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            unsigned long long n   = counts[i];
            atomic_ullong      sum = 0;
            lm_pool_run_chunks(p, add_share, &sum, counts[i]);
            assert_true(sum == n * (n + 1) / 2);
            lm_pool_run(p, count, &t);
            assert_int_equal(t.others, (i + 1) * threads);
        }
        lm_pool_free(p);
    }
}

static atomic_uint handled;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

typedef struct manners {
    bool blocks[4], faults[4];           /* whether a worker blocks SIGINT, SIGCHLD and others; whether it
                                            blocks a fault's signal */
    char name[4][16];
} manners;

static void look_at_thread(void *arg, unsigned worker, unsigned workers)
{
    manners *m = arg;
    sigset_t set;

    (void)workers;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    m->blocks[worker] = sigismember(&set, SIGINT) && sigismember(&set, SIGCHLD) &&
                        sigismember(&set, SIGALRM) && sigismember(&set, SIGUSR1);
    m->faults[worker] = sigismember(&set, SIGBUS) || sigismember(&set, SIGSEGV) ||
                        sigismember(&set, SIGFPE) || sigismember(&set, SIGILL) || sigismember(&set, SIGABRT);
    assert_int_equal(pthread_getname_np(pthread_self(), m->name[worker], sizeof m->name[worker]), 0);
}

/* A signal for the process is delivered to a thread of the host only, and the host's own mask is
 * unchanged. */
static void signals_belong_to_the_host(void **state)
{
    struct sigaction action = { .sa_handler = on_signal }, before;
    manners          m      = { 0 };
    sigset_t         user, old, now;
    lm_pool         *p;
    char             mine[16];

    (void)state;
    pthread_getname_np(pthread_self(), mine, sizeof mine);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    sigaction(SIGUSR1, &action, &before);
    assert_int_equal(lm_pool_new(4, &p, NULL), LM_OK);
    pthread_sigmask(SIG_BLOCK, &user, &old);
    assert_false(sigismember(&old, SIGUSR1) || sigismember(&old, SIGINT));
    lm_pool_run(p, look_at_thread, &m);
    kill(getpid(), SIGUSR1);
    usleep(20000);
    lm_pool_run(p, look_at_thread, &m);
    assert_int_equal(handled, 0);
    sigpending(&now);
    assert_true(sigismember(&now, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(handled, 1);
    lm_pool_free(p);
    sigaction(SIGUSR1, &before, NULL);
    assert_string_equal(m.name[0], mine);
    for (unsigned i = 1; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "lamina-%u", i);
        assert_string_equal(m.name[i], name);
        assert_true(m.blocks[i] && !m.faults[i]);
    }
}

typedef struct idle_tally {
    unsigned    calls[2];            /* not atomic: one per worker */
    atomic_uint all;
} idle_tally;

static bool count_idle(void *arg, unsigned worker)
{
    idle_tally *t = arg;

    t->calls[worker]++;
    atomic_fetch_add(&t->all, 1);
    return t->calls[worker] < 100;
}

/* The idle function is called in waiting threads until it has nothing left to do, and the job completes
 * nevertheless. */
static void waiting_is_used(void **state)
{
    lm_pool   *p;
    share_tally t = { .slow = 1 };
    idle_tally idle = { { 0 }, 0 };

    (void)state;
    assert_int_equal(lm_pool_new(2, &p, NULL), LM_OK);
    lm_pool_idle(p, count_idle, &idle);
    for (unsigned i = 1; i <= 50; i++) {
        lm_pool_run_chunks(p, count_share, &t, 2);
        assert_int_equal(t.all, 2 * i);
    }
    lm_pool_free(p);
    assert_int_equal(idle.calls[0] + idle.calls[1], idle.all);
    if (lm_cpu_cores() >= 2)
        assert_true(idle.all >= 100);
    else
        assert_int_equal(idle.all, 0);                   /* with one core waiting threads only sleep */
}

static void jobs_allocate_nothing(void **state)
{
    lm_pool       *p;
    tally          t      = { 0 };
    lm_alloc_stats before = lm_alloc_statistics();

    (void)state;
    assert_int_equal(lm_pool_new(2, &p, NULL), LM_OK);
    uint64_t calls = lm_alloc_statistics().calls;
    for (int i = 0; i < 100; i++)
        lm_pool_run(p, count, &t);
    assert_int_equal(lm_alloc_statistics().calls, calls);
    lm_pool_free(p);
    assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);
}

/* Return the number of threads of this process that run or are ready to run, including this one. */
static unsigned awake(void)
{
    DIR           *tasks = opendir("/proc/self/task");
    struct dirent *d;
    unsigned       n = 0;

    assert_non_null(tasks);
    while ((d = readdir(tasks))) {
        char  path[300], text[512] = "", *name;
        FILE *f;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
        f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!f)
            continue;
        assert_non_null(fgets(text, sizeof text, f));
        fclose(f);
        name = strrchr(text, ')');                       /* "1234 (name) S ..." */
        n += name && name[2] == 'R';
    }
    closedir(tasks);
    return n;
}

/* A worker that spins never sleeps; one that polls would be awake in one of a hundred samples. */
static void idle_pools_sleep(void **state)
{
    lm_pool *p;
    tally    t = { 0 };
    unsigned threads = lm_cpu_cores() < 2 ? 2 : lm_cpu_cores() > MAX ? MAX : lm_cpu_cores();

    (void)state;
    assert_int_equal(lm_pool_new(threads, &p, NULL), LM_OK);
    lm_pool_run(p, count, &t);
    while (awake() > 1)                                  /* the suite's time limit catches a worker that never
                                                            sleeps */
        usleep(1000);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(awake(), 1);
        usleep(1000);
    }
    lm_pool_free(p);
}

static void impossible_sizes(void **state)
{
    lm_pool *p = NULL;
    lm_error e;

    (void)state;
    assert_int_equal(lm_pool_new(0, &p, &e), LM_USAGE);
    assert_int_equal(lm_pool_new(100000, &p, &e), LM_USAGE);
    lm_alloc_fail_at(1);
    assert_int_equal(lm_pool_new(2, &p, &e), LM_NO_MEMORY);
    assert_null(p);
}

/* Shares are consecutive, cover everything once, begin at multiples of the grain and differ by at most one
 * grain. */
static void parts_cover_everything(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 200; n += 3)
        for (uint64_t grain = 1; grain < 70; grain = grain * 2 + 1)
            for (unsigned workers = 1; workers < 9; workers++) {
                uint64_t at = 0, min = UINT64_MAX, max = 0;
                for (unsigned w = 0; w < workers; w++) {
                    uint64_t from, to;
                    lm_pool_range(n, grain, w, workers, &from, &to);
                    assert_true(from == at && to >= from && to <= n);
                    assert_true(from % grain == 0 || from == n);
                    uint64_t grains = (to - from + grain - 1) / grain;
                    min           = grains < min ? grains : min;
                    max            = grains > max ? grains : max;
                    at              = to;
                }
                assert_true(at == n);
                assert_true(max - min <= 1);
            }
}

/* The product of a huge count and the number of workers does not overflow. */
static void huge_counts_are_shared_too(void **state)
{
    (void)state;
    for (uint64_t grain = 1; grain < 2000; grain = grain * 3 + 1)
        for (unsigned workers = 1; workers < 9; workers++) {
            uint64_t at = 0;
            for (unsigned w = 0; w < workers; w++) {
                uint64_t from, to;
                lm_pool_range(UINT64_MAX, grain, w, workers, &from, &to);
                assert_true(from == at && to - from >= UINT64_MAX / workers - 2 * grain);
                at = to;
            }
            assert_true(at == UINT64_MAX);
        }
}

static void count_worker(void *arg, unsigned worker, unsigned chunk)
{
    (void)chunk;
    atomic_fetch_add((atomic_uint *)arg + worker, 1);
    usleep(20);
}

/* Workers that are not in use run no chunks, and run them again when they are in use again. */
static void some_of_the_workers(void **state)
{
    atomic_uint chunks[4], all = 0;
    lm_pool    *p;

    (void)state;
    assert_int_equal(lm_pool_new(4, &p, NULL), LM_OK);
    assert_int_equal(lm_pool_used(p), 4);
    for (unsigned round = 0; round < 100; round++) {
        tally    t = { 0 };
        unsigned n = 1 + round * 7 % 5, sum = 0;
        for (unsigned k = 0; k < 4; k++)
            atomic_store(&chunks[k], 0);
        lm_pool_use(p, n);
        assert_int_equal(lm_pool_used(p), n < 4 ? n : 4);
        lm_pool_run_chunks(p, count_worker, chunks, 40);
        for (unsigned k = 0; k < 4; k++) {
            sum += chunks[k];
            assert_true(k < n || chunks[k] == 0);
        }
        assert_int_equal(sum, 40);
        all += chunks[3];
        if (round % 50 == 49) {
            lm_pool_run(p, count, &t);
            assert_int_equal(t.others, 4);
            assert_int_equal(lm_pool_used(p), 4);
        }
    }
    assert_true(all > 0);
    /* the pool can be freed while three workers sleep */
    lm_pool_use(p, 1);
    lm_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_once),
        cmocka_unit_test(every_part_once),
        cmocka_unit_test(any_number_of_parts),
        cmocka_unit_test(signals_belong_to_the_host),
        cmocka_unit_test(waiting_is_used),
        cmocka_unit_test(sleeping_threads_are_woken),
        cmocka_unit_test(jobs_allocate_nothing),
        cmocka_unit_test(idle_pools_sleep),
        cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(parts_cover_everything),
        cmocka_unit_test(huge_counts_are_shared_too),
        cmocka_unit_test(some_of_the_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
