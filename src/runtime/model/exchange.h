/* exchange.h - how the ranks of a model that several processes run together communicate.
 *
 * Rank 0 leads: it takes requests, and sends the others each change of its engine before it makes it
 * (broadcast.c). Within a step all ranks meet in every exchange of the plan, in the plan's order. An exchange
 * fails on every rank or on none; otherwise the engine is unusable. */
#ifndef LM_RUNTIME_EXCHANGE_H
#define LM_RUNTIME_EXCHANGE_H

#include "lamina/cluster.h"
#include "plan/plan.h"

struct lm_engine;

/* Called by the thread that uses the engine. `arg` is the caller's. */
typedef struct lm_rank_exchange {
    void    *arg;
    uint32_t rank, ranks;
    uint32_t parts;              /* number of parts of each layer: ranks r with the same r / parts have the
                                    same layers; divides `ranks` */
    /* Gather bytes[r] bytes from `mine` of every rank r into `all`, in rank order: from the `parts` ranks
     * with the same layers, or, if `everybody`, from all ranks. LM_IO if a rank does not answer in time. */
    lm_status (*gather)(void *arg, bool everybody, const void *mine, const uint64_t *bytes, void *all,
                        lm_error *e);
    /* Send or receive one message; the receiver must expect as many bytes as are sent. */
    lm_status (*send)(void *arg, uint32_t to, const void *message, uint64_t bytes, lm_error *e);
    lm_status (*receive)(void *arg, uint32_t from, void *message, uint64_t bytes, lm_error *e);
    /* Broadcast a message of rank 0 to all other ranks, which wait for it. */
    lm_status (*lead)(void *arg, void *message, uint64_t bytes, lm_error *e);
    uint64_t *n_messages;        /* messages of rank 0 so far */
} lm_rank_exchange;

/* The object that lamina/cluster.h returns. */
struct lm_cluster {
    lm_rank_exchange x;          /* gather NULL: the ranks are only simulated */
    bool        exact;           /* no sum is split between ranks */
};

/* Run one exchange step of a plan for n rows. */
lm_status lm_engine_exchange(struct lm_engine *g, const lm_step *s, uint32_t n, lm_error *e);

#endif
