/* preempt.c - pages for a step that has too few: first those of free slots, then unused prefixes, then those
 * of a request, which is preempted and recomputed later. */
#include "runtime/engine/kv.h"
#include "schedule/schedule.h"

bool lm_evict_free_slot(lm_schedule *s)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < s->n_slots; i++)
        if (lm_slot_idle(&s->slots[i]) && s->slots[i].n &&
            (best == UINT32_MAX || s->slots[i].used < s->slots[best].used))
            best = i;
    if (best == UINT32_MAX)
        return false;
    lm_slot_clear(s, best);
    return true;
}

/* Whether `a` is preempted before `b`: stalled requests first, then lower priorities, then later requests. */
static bool preempted_before(const lm_reply *a, const lm_reply *b)
{
    if ((a->stalled_since > 0) != (b->stalled_since > 0))
        return a->stalled_since > 0;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->number > b->number;
}

bool lm_preempt(lm_schedule *s, bool last)
{
    lm_reply *victim = NULL;

    for (uint32_t i = 0; i < s->n_active; i++)
        if (!s->active[i]->over && (!victim || preempted_before(s->active[i], victim)))
            victim = s->active[i];
    if (!victim || (s->n_active < 2 && !last))
        return false;
    lm_slot_release(s, victim, true);
    victim->usage.preempted++;
    lm_count(&s->counts.preempted, 1);
    atomic_store_explicit(&victim->state, LM_REPLY_PREEMPTED, memory_order_relaxed);
    lm_queue_add(s, victim, true);
    return true;
}

bool lm_reclaim_any(lm_schedule *s)
{
    return lm_evict_free_slot(s) || lm_preempt(s, false);
}

bool lm_reclaim_pages(lm_schedule *s, bool last)
{
    bool made = false;

    for (uint32_t i = 0; i < lm_pages_groups(s->g); i++)
        for (; lm_kv_missing(s->g, i); made = true)
            if (!lm_evict_free_slot(s) && !lm_prefixes_evict(&s->prefixes, i))
                return lm_preempt(s, last);
    return made;
}
