/* linkspeed.c - measure the speed of messages from rank 0 to the other ranks and back. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cluster/ranks.h"
#include "program/split.h"
#include "runtime/model/exchange.h"

enum { ROUNDS = 200, LARGE_ROUNDS = 12, LARGE = 4 << 20 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Measure the seconds of one message of `bytes` between rank 0 and rank `other`: half of the fastest round
 * trip. Other ranks are idle. */
static lm_status one_way(const lm_rank_exchange *x, uint32_t other, void *buffer, uint64_t bytes,
                         uint32_t rounds, double *out, lm_error *e)
{
    double best = 1e9;

    for (uint32_t i = 0; i < rounds; i++) {
        double start = now();
        if (x->rank == 0) {
            LM_TRY(lm_ranks_send(other, buffer, bytes, e));
            LM_TRY(lm_ranks_receive(other, buffer, bytes, e));
        } else if (x->rank == other) {
            LM_TRY(lm_ranks_receive(0, buffer, bytes, e));
            LM_TRY(lm_ranks_send(0, buffer, bytes, e));
        }
        double took = (now() - start) / 2;
        best        = took < best ? took : best;
    }
    *out = best;
    return LM_OK;
}

lm_status lm_link_measure(const lm_rank_exchange *x, uint32_t other, double *latency, double *rate,
                          lm_error *e)
{
    double   small = 0, large = 0;
    uint8_t *buffer = lm_alloc_zero(LARGE, 1);
    lm_status status = buffer ? LM_OK : lm_fail_memory(e, "message", LARGE);

    if (status == LM_OK)
        status = one_way(x, other, buffer, 1, ROUNDS, &small, e);
    if (status == LM_OK)
        status = one_way(x, other, buffer, LARGE, LARGE_ROUNDS, &large, e);
    lm_free(buffer);
    *latency = small;
    *rate    = large > small ? LARGE / (large - small) : LARGE / (large > 0 ? large : 1e-9);
    return status;
}

lm_status lm_cluster_measure(lm_cluster *c, lm_link *out, lm_error *e)
{
    LM_REQUIRE(e, c && out);
    lm_link slowest = { .name = "measured", .title = "measured between the ranks", .bytes_per_second = 1e18,
                        .source = "lamina: messages there and back, the fastest of many" };

    if (!c->x.gather || c->x.ranks < 2)
        return lm_fail(e, LM_USAGE, "link", LM_NO_OFFSET,
                       "a network is measured between ranks: mpirun -n 2 and more");
    for (uint32_t r = 1; r < c->x.ranks; r++) {
        double latency, rate, both[2], all[2 * LM_MAX_RANKS];
        uint64_t bytes[LM_MAX_RANKS];
        LM_TRY(lm_link_measure(&c->x, r, &latency, &rate, e));
        both[0] = latency, both[1] = rate;
        for (uint32_t q = 0; q < c->x.ranks; q++)
            bytes[q] = sizeof both;
        LM_TRY(c->x.gather(c->x.arg, true, both, bytes, all, e));      /* rank 0's measurement counts */
        slowest.latency          = all[0] > slowest.latency ? all[0] : slowest.latency;
        slowest.bytes_per_second = all[1] < slowest.bytes_per_second ? all[1] : slowest.bytes_per_second;
    }
    *out = slowest;
    return LM_OK;
}
