/* without.c - builds without MPI: splits can be planned but not run. */
#include "cluster/ranks.h"

lm_status lm_ranks_join(double timeout, lm_rank_exchange *x, lm_error *e)
{
    (void)timeout;
    (void)x;
    return lm_fail(e, LM_UNSUPPORTED, "split", LM_NO_OFFSET, "this build has no MPI");
}

lm_status lm_ranks_group(lm_rank_exchange *x, uint32_t parts, lm_error *e)
{
    (void)x, (void)parts;
    return lm_fail(e, LM_UNSUPPORTED, "split", LM_NO_OFFSET, "this build has no MPI");
}

lm_status lm_ranks_send(uint32_t to, const void *message, uint64_t bytes, lm_error *e)
{
    (void)to, (void)message, (void)bytes;
    return lm_fail(e, LM_UNSUPPORTED, "split", LM_NO_OFFSET, "this build has no MPI");
}

lm_status lm_ranks_receive(uint32_t from, void *message, uint64_t bytes, lm_error *e)
{
    (void)from, (void)message, (void)bytes;
    return lm_fail(e, LM_UNSUPPORTED, "split", LM_NO_OFFSET, "this build has no MPI");
}

void lm_ranks_close(lm_rank_exchange *x, bool lost)
{
    (void)x;
    (void)lost;
}

bool lm_ranks_broken(void)
{
    return false;
}

const char *lm_cluster_library(void)
{
    return NULL;
}
