/* profile.h - where the time of steps goes: clocks that the executor reads while profiling.
 *
 * When off, it costs a comparison per chunk. When on, a clock is read between steps of different kinds;
 * nothing is allocated, and results do not change. */
#ifndef LM_RUNTIME_PROFILE_H
#define LM_RUNTIME_PROFILE_H

#include "base/os/clock.h"
#include "runtime/engine/state.h"

typedef struct lm_profiler {
    uint32_t  n_kinds;
    uint8_t  *kind;              /* [n_steps]; NULL: each step separately */
    uint32_t  lanes;             /* of `ns`: LM_PROFILE_KINDS, or enough for all steps */
    uint64_t *ns;                /* [workers][lanes]: time at work, by kind or step; each worker writes its
                                    own cache lines */
    uint64_t  step_ns, worker_ns;
    uint64_t  steps, joins;
    size_t    bytes;             /* of this object and what it points to, one block */
    lm_profile_kind kinds[LM_PROFILE_KINDS];
} lm_profiler;

static inline uint64_t lm_profile_now(void) { return (uint64_t)lm_clock_ns(); }

static inline void lm_profile_spent(lm_profiler *p, unsigned worker, uint32_t step, uint64_t ns)
{
    p->ns[(size_t)worker * p->lanes + (p->kind ? p->kind[step] : step)] += ns;
}

/* Add a step of the engine: its time, the number of workers, and how often they synchronised. */
void lm_profile_step(lm_engine *g, uint64_t ns, unsigned workers, uint32_t joins);

void lm_profiler_free(lm_profiler *p);

#endif
