/* slot_assign.c - assigning slots to requests, and releasing them. */
#include <string.h>

#include "base/os/clock.h"
#include "schedule/schedule.h"

/* ---- the queue ---- */

void lm_queue_add(lm_schedule *s, lm_reply *r, bool front)
{
    lm_reply *after = front ? NULL : s->last, *before;

    while (front && (before = after ? after->next : s->first) && before->had_slot &&
           before->number < r->number)
        after = before;
    r->previous = after;
    r->next     = after ? after->next : s->first;
    *(after ? &after->next : &s->first)                 = r;
    *(r->next ? &r->next->previous : &s->last)          = r;
}

void lm_queue_remove(lm_schedule *s, lm_reply *r)
{
    *(r->previous ? &r->previous->next : &s->first) = r->next;
    *(r->next ? &r->next->previous : &s->last)      = r->previous;
    r->next = r->previous = NULL;
}

/* ---- free slots ---- */

void lm_slot_clear(lm_schedule *s, uint32_t slot)
{
    lm_slot *t = &s->slots[slot];

    lm_engine_truncate(s->g, slot, 0, NULL);
    t->n = 0;
    atomic_store_explicit(&t->n_held, 0, memory_order_relaxed);
}

uint32_t lm_slot_find_free(const lm_schedule *s)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        const lm_slot *t = &s->slots[i], *b = best == UINT32_MAX ? NULL : &s->slots[best];
        if (lm_slot_idle(t) &&
            (!b || (t->n == 0) > (b->n == 0) || ((t->n == 0) == (b->n == 0) && t->used < b->used)))
            best = i;
    }
    return best;
}

/* ---- the prefix cache ---- */

lm_prefix *lm_keep_tokens(lm_schedule *s, uint32_t slot, uint64_t salt, const lm_token *ids, size_t n)
{
    lm_prefix *node = NULL;

    lm_prefixes_follow(&s->prefixes, &node, salt, ids, n, n, slot);
    lm_prefixes_unpin(node);
    lm_prefixes_mark(&s->prefixes, node);
    return node;
}

void lm_keep_pages(lm_schedule *s, lm_reply *r)
{
    lm_sequence_info info;

    if (!r->keeps)
        return;
    lm_sequence_describe(r->sequence, &info);
    r->keeps = lm_prefixes_follow(&s->prefixes, &r->node, r->salt, lm_sequence_ids(r->sequence, NULL),
                                  info.n_held, r->usage.n_prompt, r->slot);
    r->pages = r->node ? r->node->depth + 1 : 0;
}

/* ---- assigning and releasing ---- */

static void count_admission(lm_schedule *s, lm_reply *r, size_t cached)
{
    if (r->had_slot)
        return;
    r->had_slot            = true;
    r->usage.n_cached      = cached;
    r->usage.queue_seconds = lm_clock_seconds() - r->submitted;
    lm_count(&s->counts.queue_ns, (uint64_t)(r->usage.queue_seconds * 1e9));
    lm_durations_add(&s->counts.queue, r->usage.queue_seconds);
    lm_count(&s->counts.prompt_tokens, r->usage.n_prompt);
    lm_count(&s->counts.cached_tokens, cached);
    atomic_store_explicit(&r->read, cached, memory_order_relaxed);
}

void lm_slot_assign(lm_schedule *s, lm_reply *r, uint32_t slot, lm_prefix *node, size_t cached)
{
    lm_slot *t = &s->slots[slot];

    lm_slot_clear(s, slot);
    lm_prefixes_pin(node);
    lm_prefixes_share(&s->prefixes, node, slot, (uint32_t)cached);
    lm_engine_set_adapters(s->g, slot, r->adapters, NULL);
    lm_reply_open(r);
    lm_sequence_place(r->sequence, slot, cached);
    count_admission(s, r, cached);
    r->slot     = r->usage.slot = slot;
    r->node     = node;
    r->pages    = node ? node->depth + 1 : 0;
    r->keeps    = !r->no_prefix;
    r->has_slot = true;
    r->held_for = 0;
    t->reply    = r;
    t->used     = ++s->turn;
    t->owner    = r->owner;
    s->active[s->n_active++] = r;
    atomic_store_explicit(&t->busy, 1, memory_order_relaxed);
    atomic_store_explicit(&t->n_prompt, (uint32_t)r->usage.n_prompt, memory_order_relaxed);
    atomic_store_explicit(&t->n_tokens, (uint32_t)r->usage.n_tokens, memory_order_relaxed);
    atomic_store_explicit(&r->state, LM_REPLY_READS, memory_order_relaxed);
}

/* Record what the slot holds now, to be saved or continued. */
static void record_slot(lm_schedule *s, const lm_reply *r)
{
    lm_slot         *t = &s->slots[r->slot];
    size_t           n;
    const lm_token  *ids = lm_sequence_ids(r->sequence, &n);
    uint32_t         held = lm_engine_length(s->g, r->slot);

    t->n    = held < n ? held : (uint32_t)n;
    t->salt = r->salt;
    t->used = ++s->turn;
    memcpy(t->ids, ids, t->n * sizeof *ids);
    atomic_store_explicit(&t->n_held, t->n, memory_order_relaxed);
}

void lm_slot_release(lm_schedule *s, lm_reply *r, bool preempted)
{
    lm_slot *t = &s->slots[r->slot];
    uint32_t i = 0;

    lm_keep_pages(s, r);
    lm_sequence_detach(r->sequence);
    if (preempted)
        lm_slot_clear(s, r->slot);
    else
        record_slot(s, r);
    lm_prefixes_mark(&s->prefixes, r->node);
    lm_prefixes_unpin(r->node);
    r->node     = NULL;
    r->pages    = 0;
    r->has_slot = false;
    t->reply    = NULL;
    atomic_store_explicit(&t->busy, 0, memory_order_relaxed);
    while (s->active[i] != r)
        i++;
    s->n_active--;
    memmove(&s->active[i], &s->active[i + 1], (s->n_active - i) * sizeof *s->active);
}
