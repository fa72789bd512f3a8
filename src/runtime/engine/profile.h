/* profile.h - where the time of steps goes: clocks that the executor reads while somebody wants to know.
 *
 * Off, it costs a comparison for each chunk. On, a clock is read between steps of different kinds; nothing is allocated and
 * results do not change. */
#ifndef LM_RUNTIME_PROFILE_H
#define LM_RUNTIME_PROFILE_H

#include "base/clock.h"
#include "runtime/engine/state.h"

typedef struct lm_profiler {
    uint32_t  n_kinds;
    uint8_t  *kind;              /* [n_steps]; NULL: each step by itself */
    uint32_t  lanes;             /* of `ns`: LM_PROFILE_KINDS, or room for all steps */
    uint64_t *ns;                /* [workers][lanes]: at work, by kind or step; each worker writes its own lines */
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

/* After a step of the engine: its time, with how many workers, and how often they met. */
void lm_profile_step(lm_engine *g, uint64_t ns, unsigned workers, uint32_t joins);

void lm_profiler_free(lm_profiler *p);

#endif
