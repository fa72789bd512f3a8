/* measure.c - measure the peak rates of this machine: arithmetic in registers, reading of memory; later calls
 * use the stored results (limits.h).
 *
 * Every worker measures its own time, from a start that all wait for, for the same number of seconds: a clock
 * in the main thread starts late when every core is at work and reports too much. Memory holds pages that all
 * differ (hosts merge equal ones) and is read in four streams (one alone does not reach the limit). */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/available.h"
#include "base/arena.h"
#include "base/os/clock.h"
#include "base/os/cpu.h"
#include "base/os/pool.h"
#include "kernels/probe.h"
#include "runtime/measure/limits.h"

#define DISTURBED_SECONDS 600        /* seconds that results of a busy machine are used */
#define TRIES 3                      /* while results stay below the best known */
#define MAX_WINDOWS 16
#define COMPUTE_WINDOW 0.004         /* seconds: shorter than the time slices that a scheduler gives to other
                                        processes */
#define READ_WINDOW 0.03
#define BUDGET 0.2                   /* seconds for all windows of one kind; a busy machine gets fewer
                                        windows */
#define PIECE ((size_t)256 << 10)    /* bytes of a stream, between two readings of the clock */

/* Return the seconds that this thread has had a processor. */
static double given_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one window ---- */

typedef struct slot {
    _Alignas(64) unsigned char operands[LM_PROBE_BYTES];
    double   rate;
    double   elapsed, given;         /* seconds of all windows: by the clock, on a processor */
    uint64_t sum;                    /* result of reading, so that it is not optimised away */
    size_t   at;                     /* where the next window continues */
} slot;

typedef struct window {
    const lm_probe_loop *loop;       /* NULL: read memory */
    const lm_probes     *probes;
    uint8_t             *memory;
    size_t               bytes;
    double               seconds;
    atomic_uint          ready;
    slot                *slots;
} window;

static double compute_until(const window *w, slot *s, double end, double *stopped)
{
    double work = 0;

    do {
        w->loop->run(s->operands, 4096);
        work += 4096 * (double)w->loop->operations;
    } while ((*stopped = lm_clock_seconds()) < end);
    return work;
}

static double read_until(const window *w, slot *s, unsigned index, unsigned workers, double end,
                         double *stopped)
{
    size_t         share = w->bytes / workers / (4 * PIECE) * (4 * PIECE), stride = share / 4;
    const uint8_t *mine  = w->memory + index * share;
    double         work  = 0;

    do {
        s->sum += w->probes->read(mine + s->at, stride, PIECE);
        s->at = s->at + PIECE < stride ? s->at + PIECE : 0;
        work += 4 * (double)PIECE;
    } while ((*stopped = lm_clock_seconds()) < end);
    return work;
}

static void run_window(void *arg, unsigned index, unsigned workers)
{
    window *w = arg;
    slot   *s = &w->slots[index];
    double  start, stop = 0, given;

    atomic_fetch_add(&w->ready, 1);
    /* as many workers as cores: none waits for long */
    while (atomic_load(&w->ready) < workers)
        if (workers > 1)
            sched_yield();
    given       = given_seconds();
    start       = lm_clock_seconds();
    double work = w->loop ? compute_until(w, s, start + w->seconds, &stop)
                          : read_until(w, s, index, workers, start + w->seconds, &stop);
    s->rate     = work / (stop - start);
    s->elapsed += stop - start;
    s->given += given_seconds() - given;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Return the median of the windows; *best: the best. */
static double measure(lm_pool *pool, window *w, double *best)
{
    double rates[MAX_WINDOWS], end = lm_clock_seconds() + BUDGET;
    size_t n = 0;

    do {
        double sum = 0;
        atomic_store(&w->ready, 0);
        lm_pool_run(pool, run_window, w);
        for (unsigned k = 0; k < lm_pool_threads(pool); k++)
            sum += w->slots[k].rate;
        rates[n++] = sum;
    } while (n < MAX_WINDOWS && lm_clock_seconds() < end);
    qsort(rates, n, sizeof *rates, by_size);
    *best = rates[n - 1];
    return rates[n / 2];
}

/* ---- all rates ---- */

/* Fill memory so that every page differs from all others: nothing that a host could store only once.
 * Multiples of an odd number never repeat. */
static void fill(void *arg, unsigned index, unsigned workers)
{
    window   *w     = arg;
    uint64_t *words = (void *)w->memory, from, to;

    lm_pool_range(w->bytes / sizeof *words, 4096, index, workers, &from, &to);
    for (uint64_t i = from; i < to; i++)
        words[i] = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Return how many bytes to read: far more than the last-level cache, but at most an eighth of the available
 * memory. */
static size_t memory_to_read(void)
{
    long     cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t bytes = UINT64_C(128) << 20, free_bytes = lm_memory_available();

    if (cache > 0 && (uint64_t)cache * 4 > bytes)
        bytes = (uint64_t)cache * 4 < UINT64_C(1) << 30 ? (uint64_t)cache * 4 : UINT64_C(1) << 30;
    if (bytes > free_bytes / 8)
        bytes = free_bytes / 8;
    return (size_t)bytes & ~(((size_t)1 << 20) - 1);
}

static void measure_loop(lm_pool *one, lm_pool *all, window *w, const lm_probe_loop *loop,
                         enum lm_probe_kind kind, lm_rate *out)
{
    *out = (lm_rate){ 0 };
    if (!loop->run)
        return;
    w->loop    = loop;
    w->seconds = COMPUTE_WINDOW;
    for (unsigned i = 0; i < lm_pool_threads(all); i++)
        lm_probe_fill(w->slots[i].operands, kind, i);
    /* Arithmetic never exceeds the limit: the best window shows it, the others were disturbed. */
    measure(one, w, &out->one);
    measure(all, w, &out->all);
    out->best = out->all;
    snprintf(out->by, sizeof out->by, "%s", loop->instruction);
}

static double lost(const slot *slots, unsigned n)
{
    double elapsed = 0, given = 0;

    for (unsigned i = 0; i < n; i++) {
        elapsed += slots[i].elapsed;
        given += slots[i].given;
    }
    return given < elapsed ? 1 - given / elapsed : 0;
}

static lm_status measure_with(lm_pool *one, lm_pool *all, lm_cpu cpu, lm_limits *out, lm_error *e)
{
    size_t    slot_bytes = lm_pool_threads(all) * sizeof(slot), share;
    lm_probes probes;
    window    w = { .probes = &probes, .bytes = memory_to_read() };
    double    ignored;

    lm_probes_init(&probes, cpu);
    share = w.bytes / lm_pool_threads(all);
    if (share < 4 * PIECE)
        return lm_fail(e, LM_NO_MEMORY, "memory probe", LM_NO_OFFSET,
                       "too little memory is free to measure its speed");
    w.slots  = lm_alloc_aligned(slot_bytes, 64);
    w.memory = lm_alloc_aligned(w.bytes, (size_t)2 << 20);
    if (!w.slots || !w.memory) {
        lm_free_aligned(w.slots, slot_bytes);
        lm_free_aligned(w.memory, w.bytes);
        return lm_fail_memory(e, "memory probe", w.bytes);
    }
    measure_loop(one, all, &w, &probes.int8, LM_PROBE_INT8, &out->int8);
    measure_loop(one, all, &w, &probes.bf16, LM_PROBE_BF16, &out->bf16);
    measure_loop(one, all, &w, &probes.f32, LM_PROBE_F32, &out->f32);
    lm_pool_run(all, fill, &w);
    w.loop          = NULL;
    w.seconds       = READ_WINDOW;
    out->memory.one = measure(one, &w, &ignored);
    for (unsigned i = 0; i < lm_pool_threads(all); i++)
        w.slots[i].at = 0;                                               /* its share is smaller now */
    out->memory.all = measure(all, &w, &out->memory.best);
    snprintf(out->memory.by, sizeof out->memory.by, "4 streams a thread");
    out->busy = lost(w.slots, lm_pool_threads(all));
    lm_free_aligned(w.memory, w.bytes);
    lm_free_aligned(w.slots, slot_bytes);
    return LM_OK;
}

static lm_status measure_now(lm_cpu cpu, uint32_t threads, lm_limits *out, lm_error *e)
{
    lm_pool  *one = NULL, *all = NULL;
    double    start  = lm_clock_seconds();
    lm_status status = lm_pool_new(1, &one, e);

    if (status == LM_OK)
        status = lm_pool_new(threads, &all, e);
    if (status == LM_OK)
        status = measure_with(one, all, cpu, out, e);
    lm_pool_free(all);
    lm_pool_free(one);
    out->measured_at = (int64_t)time(NULL);
    out->seconds     = lm_clock_seconds() - start;
    return status;
}

/* ---- comparison with the known limits ---- */

/* Return whether to measure again. Results of a busy machine are not limits: they are used for some minutes
 * only. */
static bool is_stale(const lm_limits *l, const char *path)
{
    struct stat file;

    /* written after each attempt, also if it found nothing better and measured_at is unchanged */
    return l->busy > LM_LIMITS_BUSY &&
           (stat(path, &file) != 0 || time(NULL) - file.st_mtime > DISTURBED_SECONDS);
}

/* Return whether other processes took so much time that the results are no limits, and no better ones are
 * known. */
static bool is_disturbed(const lm_limits *best, const lm_limits *now)
{
    return now->busy > LM_LIMITS_BUSY && !(best->memory.all > 0 && best->busy <= LM_LIMITS_BUSY);
}

/* Measure, and repeat while results stay below what the machine is known to reach, or were disturbed: another
 * process may have been running. */
static lm_status measure_again(const lm_limits *best, lm_cpu cpu, uint32_t threads, lm_limits *out,
                               lm_error *e)
{
    lm_limits x = *out;

    LM_TRY(measure_now(cpu, threads, out, e));
    for (int i = 1; i < TRIES && (lm_limits_below(best, out) > LM_LIMITS_BELOW || is_disturbed(best, out));
         i++) {
        LM_TRY(measure_now(cpu, threads, &x, e));
        lm_limits_improve(out, &x);
    }
    return LM_OK;
}

lm_status lm_machine_measure(const lm_measure_options *o, lm_limits *out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    uint32_t    threads = o && o->threads ? o->threads : lm_cpu_cores();
    lm_cpu      cpu;
    lm_limits   limits = { 0 }, best;
    lm_arena    arena  = { 0 };
    lm_status   status = LM_OK;

    LM_TRY(lm_cpu_choose(o ? o->cpu : NULL, &cpu, e));
    snprintf(limits.level, sizeof limits.level, "%s", lm_cpu_name(cpu));
    limits.threads   = threads;
    best             = limits;
    const char *path = lm_limits_file(&arena, limits.level, threads);
    bool        known = path && lm_limits_read(path, &best);
    if (known && !(o && o->fresh) && ((o && o->kept_only) || !is_stale(&best, path))) {
        limits = best;
    } else if (o && o->kept_only) {
        status = lm_fail(e, LM_NOT_FOUND, "limits", LM_NO_OFFSET, "this machine has not been measured");
    } else if ((status = measure_again(&best, cpu, threads, &limits, e)) == LM_OK) {
        lm_limits_commit(&best, &limits);
        limits.kept = path && lm_limits_write(path, &best);
    }
    lm_arena_free(&arena);
    if (status == LM_OK)
        *out = limits;
    return status;
}
