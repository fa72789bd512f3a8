/* ranks.h - communication between processes: MPI, if available. */
#ifndef LM_CLUSTER_RANKS_H
#define LM_CLUSTER_RANKS_H

#include "runtime/model/exchange.h"

/* Join MPI and fill x; `timeout` in seconds per exchange. The process leaves MPI in lm_ranks_close or at
 * exit. */
lm_status lm_ranks_join(double timeout, lm_rank_exchange *x, lm_error *e);

/* Call after joining: every `parts` consecutive ranks have the same layers. `parts` must divide the number of
 * ranks. */
lm_status lm_ranks_group(lm_rank_exchange *x, uint32_t parts, lm_error *e);

/* Send or receive one message; both sides must use the same number of bytes. LM_IO: the time-out was
 * exceeded. */
lm_status lm_ranks_send(uint32_t to, const void *message, uint64_t bytes, lm_error *e);
lm_status lm_ranks_receive(uint32_t from, void *message, uint64_t bytes, lm_error *e);

/* Measure the link between rank 0 and another rank: seconds of a minimal message, and bytes per second of a
 * large one. All ranks must call this; the results are only valid on the two ranks. */
lm_status lm_link_measure(const lm_rank_exchange *x, uint32_t other, double *latency, double *rate,
                          lm_error *e);

/* Return whether an exchange has failed, after which no other is possible. */
bool      lm_ranks_broken(void);

/* Leave MPI. `lost`: another rank does not respond; all processes are aborted. */
void      lm_ranks_close(lm_rank_exchange *x, bool lost);

#endif
