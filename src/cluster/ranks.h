/* ranks.h - what joins processes: MPI, where there is one. */
#ifndef LM_CLUSTER_RANKS_H
#define LM_CLUSTER_RANKS_H

#include "runtime/engine/exchange.h"

/* Fills x; `timeout` seconds for each exchange. The process leaves MPI at lm_ranks_leave or at its exit. */
lm_status lm_ranks_join(double timeout, lm_exchange *x, lm_error *e);

/* After joining: runs of so many ranks have the same layers; divides their number. */
lm_status lm_ranks_group(lm_exchange *x, uint32_t parts, lm_error *e);

/* One message from here, and one that comes: as many bytes as the other sends. LM_IO when it takes longer than the time-out. */
lm_status lm_ranks_send(uint32_t to, const void *message, uint64_t bytes, lm_error *e);
lm_status lm_ranks_receive(uint32_t from, void *message, uint64_t bytes, lm_error *e);

/* Between rank 0 and another, called by both and by everybody else: seconds of an empty message, bytes a second of a large one; 0 and
 * nonsense on ranks that only look on. */
lm_status lm_link_measure(const lm_exchange *x, uint32_t other, double *latency, double *rate, lm_error *e);

/* Whether an exchange has failed: no other can be made. */
bool      lm_ranks_broken(void);

/* `lost`: another rank does not answer; its processes are ended. */
void      lm_ranks_leave(lm_exchange *x, bool lost);

#endif
