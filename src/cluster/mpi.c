/* mpi.c - ranks as MPI processes. Calls that wait have a deadline: they are non-blocking and polled. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/ranks.h"
#include "program/split.h"

static double timeout_seconds;
static MPI_Comm stage = MPI_COMM_NULL;   /* the ranks with the same layers, unless these are all ranks */
static atomic_bool broken;                  /* an exchange cannot complete: only MPI_Abort is possible */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Wait for a request: poll continuously at first, then with short sleeps, so that a waiting rank costs
 * nothing. `limit` 0: no time-out. */
static lm_status await(MPI_Request *r, double limit, lm_error *e)
{
    double start = now(), waited;
    int    done  = 0;

    for (uint64_t i = 0; MPI_Test(r, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS; i++) {
        if (done)
            return LM_OK;
        if (i % 64 != 63)
            continue;
        waited = now() - start;
        if (limit > 0 && waited > limit) {
            broken = true;
            return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "another rank has not answered for %g s", limit);
        }
        if (waited > 0.005)
            nanosleep(&(struct timespec){ 0, waited > 0.5 ? 1000000 : 50000 }, NULL);
        else
            sched_yield();
    }
    broken = true;
    return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
}

static lm_status gather(void *arg, bool everybody, const void *mine, const uint64_t *bytes, void *all,
                        lm_error *e)
{
    const lm_rank_exchange *x = arg;
    int                counts[LM_MAX_RANKS], places[LM_MAX_RANKS];
    bool               all_ranks = everybody || x->parts == x->ranks;
    uint32_t           n = all_ranks ? x->ranks : x->parts;
    uint64_t           at = 0;
    MPI_Request        r;

    for (uint32_t i = 0; i < n; at += bytes[i++]) {
        if (at + bytes[i] > INT_MAX)
            return lm_fail(e, LM_LIMIT, "ranks", LM_NO_OFFSET,
                           "more than 2 GiB in one exchange: use fewer rows (-ub)");
        counts[i] = (int)bytes[i];
        places[i] = (int)at;
    }
    MPI_Comm group = all_ranks ? MPI_COMM_WORLD : stage;
    if (MPI_Iallgatherv(mine, counts[x->rank % n], MPI_BYTE, all, counts, places, MPI_BYTE, group, &r) !=
        MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
    return await(&r, timeout_seconds, e);
}

/* Broadcast rank 0's message. The other ranks wait for it without a time-out. */
static lm_status lead(void *arg, void *message, uint64_t bytes, lm_error *e)
{
    const lm_rank_exchange *x = arg;
    MPI_Request        r;

    if (MPI_Ibcast(message, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &r) != MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
    return await(&r, x->rank ? 0 : timeout_seconds, e);
}

static lm_status send(void *arg, uint32_t to, const void *message, uint64_t bytes, lm_error *e)
{
    (void)arg;
    return lm_ranks_send(to, message, bytes, e);
}

static lm_status receive(void *arg, uint32_t from, void *message, uint64_t bytes, lm_error *e)
{
    (void)arg;
    return lm_ranks_receive(from, message, bytes, e);
}

lm_status lm_ranks_group(lm_rank_exchange *x, uint32_t parts, lm_error *e)
{
    x->parts = parts;
    if (parts == x->ranks || parts == 1)
        return LM_OK;
    if (MPI_Comm_split(MPI_COMM_WORLD, (int)(x->rank / parts), (int)x->rank, &stage) != MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
    MPI_Comm_set_errhandler(stage, MPI_ERRORS_RETURN);
    return LM_OK;
}

lm_status lm_ranks_send(uint32_t to, const void *message, uint64_t bytes, lm_error *e)
{
    MPI_Request r;

    if (bytes > INT_MAX ||
        MPI_Isend(message, (int)bytes, MPI_BYTE, (int)to, 0, MPI_COMM_WORLD, &r) != MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
    return await(&r, timeout_seconds, e);
}

lm_status lm_ranks_receive(uint32_t from, void *message, uint64_t bytes, lm_error *e)
{
    MPI_Request r;

    if (bytes > INT_MAX ||
        MPI_Irecv(message, (int)bytes, MPI_BYTE, (int)from, 0, MPI_COMM_WORLD, &r) != MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI failed");
    return await(&r, timeout_seconds, e);
}

static void leave_at_exit(void)
{
    lm_ranks_close(NULL, false);
}

lm_status lm_ranks_join(double timeout, lm_rank_exchange *x, lm_error *e)
{
    int given, rank, ranks, already = 0;

    timeout_seconds = timeout;
    MPI_Initialized(&already);
    if (!already && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS)
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "MPI cannot be started");
    if (!already)
        atexit(leave_at_exit);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > LM_MAX_RANKS)
        return lm_fail(e, LM_USAGE, "ranks", LM_NO_OFFSET, "%d ranks; 1 to %d are possible", ranks,
                       LM_MAX_RANKS);
    *x = (lm_rank_exchange){ x, (uint32_t)rank, (uint32_t)ranks, (uint32_t)ranks,
                             gather, send, receive, lead,
                             NULL };
    return LM_OK;
}

void lm_ranks_close(lm_rank_exchange *x, bool lost)
{
    int over = 0;

    (void)x;
    MPI_Finalized(&over);
    if (over)
        return;
    if (lost || broken)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (stage != MPI_COMM_NULL)
        MPI_Comm_free(&stage);
    MPI_Finalize();
}

bool lm_ranks_broken(void)
{
    return broken;
}

const char *lm_cluster_library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int         n = 0;

    if (!*text)
        MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}
