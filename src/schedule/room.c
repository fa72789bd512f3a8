/* room.c - pages for a step that has too few: first what free slots still hold, then prefixes that nobody uses, then those
 * of a text, which reads itself again when there is room. */
#include "runtime/engine/kv.h"
#include "schedule/schedule.h"

bool lm_clear_leftover(lm_schedule *s)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < s->n_seats; i++)
        if (lm_seat_idle(&s->seats[i]) && s->seats[i].n && (best == UINT32_MAX || s->seats[i].used < s->seats[best].used))
            best = i;
    if (best == UINT32_MAX)
        return false;
    lm_seat_clear(s, best);
    return true;
}

/* Whether `a` gives way before `b`: one that waits for its reader, then the lower priority, then the later. */
static bool gives_way(const lm_reply *a, const lm_reply *b)
{
    if ((a->stalled_since > 0) != (b->stalled_since > 0))
        return a->stalled_since > 0;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->number > b->number;
}

/* The oldest of the highest priority never does: so it ends some day, and the next one is the oldest. */
static bool preempt(lm_schedule *s)
{
    lm_reply *victim = NULL;

    for (uint32_t i = 0; i < s->n_texts; i++)
        if (!s->texts[i]->over && (!victim || gives_way(s->texts[i], victim)))
            victim = s->texts[i];
    if (!victim || s->n_texts < 2)
        return false;
    lm_unplace(s, victim, true);
    victim->usage.preempted++;
    lm_count(&s->counts.preempted, 1);
    atomic_store_explicit(&victim->state, LM_REPLY_PREEMPTED, memory_order_relaxed);
    lm_queue_add(s, victim, true);
    return true;
}

bool lm_make_room_anywhere(lm_schedule *s)
{
    return lm_clear_leftover(s) || preempt(s);
}

bool lm_make_room(lm_schedule *s)
{
    bool made = false;

    for (uint32_t i = 0; i < lm_kept_groups(s->g); i++)
        for (; lm_kv_missing(s->g, i); made = true)
            if (!lm_clear_leftover(s) && !lm_prefixes_evict(&s->prefixes, i))
                return preempt(s);
    return made;
}
