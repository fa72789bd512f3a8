/* admission.c - the next request to admit, and whether it fits. */
#include "schedule/schedule.h"

#include <string.h>

#include "base/error.h"

enum {
    GROWTH       = 1,                /* pages that are left free per active request when another one is
                                        admitted … */
    GROWTH_AGAIN = 4,                /* … when a preempted one is admitted again; otherwise it would soon be
                                        preempted again */
    WORTH        = 1,                /* a request waits for pages of a prefix that is being processed if there
                                        are more than this */
};

/* ---- free pages ---- */

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Pages that a sequence of `n` tokens holds once the next one is processed. */
static uint32_t pages_for(const lm_schedule *s, uint32_t group, size_t n)
{
    const lm_kv_group *k    = &s->g->plan->groups[group];
    uint64_t           max = lm_kv_sequence_pages(s->g->plan, k);

    return (uint32_t)(k->states ? max : min((n + LM_PAGE) / LM_PAGE, max));
}

/* Further pages that it takes while it is processed in steps of the maximum number of rows. */
static uint32_t step_pages(const lm_schedule *s, uint32_t group, size_t n)
{
    uint64_t all = (n + LM_PAGE) / LM_PAGE, held = pages_for(s, group, n);

    return (uint32_t)min(all > held ? all - held : 0,
                         lm_kv_step_pages(s->g->plan, &s->g->plan->groups[group]));
}

lm_status lm_admission_check(const lm_schedule *s, size_t n, lm_error *e)
{
    uint32_t context = lm_engine_context(s->g);

    if (n > context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET, "%zu tokens; the context size is %u", n, context);
    for (uint32_t i = 0; i < lm_pages_groups(s->g); i++) {
        uint32_t pages = pages_for(s, i, n) + step_pages(s, i, n);
        if (pages > lm_pages_total(s->g, i))
            return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET,
                           "%zu tokens take %u pages of the cache, which has %u", n, pages,
                           lm_pages_total(s->g, i));
    }
    return LM_OK;
}

/* Pages that active requests will soon need. */
static uint64_t spoken_for(const lm_schedule *s, uint32_t group, uint32_t growth)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->n_active; i++) {
        const lm_sequence *x    = s->active[i]->sequence;
        uint64_t held = ((uint64_t)lm_engine_length(s->g, s->active[i]->slot) + LM_PAGE - 1) / LM_PAGE;
        uint64_t           all  = lm_sequence_reads(x) ? pages_for(s, group, x->n_reads) : 0;
        n += growth + (all > held ? all - held : 0);
    }
    return n;
}

/* Return the number of pages of its prefix that are in use anyway. */
static uint32_t shared_pages(const lm_schedule *s, const lm_prefix *node, uint32_t group)
{
    uint32_t n = 0;

    for (; node; node = node->parent)
        n += node->pages[group] != LM_NONE && lm_pages_owners(s->g, group, node->pages[group]) > 1;
    return n;
}

static bool fits_group(const lm_schedule *s, const lm_reply *r, const lm_prefix *node, uint32_t group)
{
    uint64_t need = pages_for(s, group, r->sequence->n) + step_pages(s, group, r->sequence->n) +
                    spoken_for(s, group, r->had_slot ? GROWTH_AGAIN : GROWTH);
    uint64_t free_pages = lm_pages_free(s->g, group);

    return need <= free_pages ||
           need <= free_pages + shared_pages(s, node, group) + lm_prefixes_spare(&s->prefixes, group);
}

/* Whether it fits, after emptying as many free slots as necessary. */
static bool fits(lm_schedule *s, const lm_reply *r, const lm_prefix *node)
{
    for (uint32_t i = 0; s->n_active && i < lm_pages_groups(s->g); i++)
        while (!fits_group(s, r, node, i))
            if (!lm_evict_free_slot(s))
                return false;
    return true;
}

/* ---- the next request ---- */

/* Return the number of pages that `r` shares with the prompt of `q`, if `q` is still processing the last of
 * them and they are more than `have`; otherwise 0. */
static uint32_t pages_to_come(const lm_reply *r, const lm_reply *q, uint32_t have)
{
    size_t n = r->sequence->n < q->sequence->n_reads ? r->sequence->n : q->sequence->n_reads, same = 0;

    while (same < n && r->sequence->ids[same] == q->sequence->ids[same])
        same++;
    same /= LM_PAGE;
    return same > have && same > q->pages ? (uint32_t)same : 0;
}

static lm_reply *text_with_number(const lm_schedule *s, uint64_t number)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->number == number)
            return s->active[i];
    return NULL;
}

/* Whether it should wait for a prefix that another request is processing. Sets held_for and held_pages. */
static bool is_held(const lm_schedule *s, lm_reply *r)
{
    const lm_reply *q = r->held_for ? text_with_number(s, r->held_for) : NULL;

    if (q && q->keeps && q->pages < r->held_pages && lm_sequence_reads(q->sequence))
        return true;
    r->held_for = 0;
    if (r->no_prefix || r->had_slot)
        return false;
    const lm_prefix *node = lm_prefixes_down(&s->prefixes, r->salt, r->sequence->ids, r->sequence->n);
    uint32_t         have = node ? node->depth + 1 : 0;
    for (uint32_t i = 0; i < s->n_active && !r->held_for; i++) {
        q = s->active[i];
        if (q->salt != r->salt || !q->keeps || !lm_sequence_reads(q->sequence))
            continue;
        uint32_t pages = pages_to_come(r, q, have + WORTH);
        r->held_for    = pages ? q->number : 0;
        r->held_pages  = pages;
    }
    return r->held_for;
}

static bool can_be_placed(const lm_schedule *s, const lm_reply *r)
{
    return r->stalled_since <= 0 && (!r->wanted || lm_slot_idle(&s->slots[r->wanted - 1]));
}

typedef struct claim { uint32_t key, connection; } claim;

static claim claim_of(const lm_schedule *s, const lm_reply *r)
{
    claim c = { 0 };

    for (uint32_t i = 0; i < s->n_active; i++) {
        c.key += s->active[i]->key == r->key;
        c.connection += s->active[i]->key == r->key && s->active[i]->connection == r->connection;
    }
    return c;
}

static bool precedes(const lm_schedule *s, const lm_reply *a, const lm_reply *b)
{
    claim x, y;

    if (a->had_slot != b->had_slot)
        return a->had_slot;
    if ((a->passed >= LM_SCHEDULE_PASSED) != (b->passed >= LM_SCHEDULE_PASSED))
        return a->passed >= LM_SCHEDULE_PASSED;
    if (a->had_slot || a->passed >= LM_SCHEDULE_PASSED)
        return a->number < b->number;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    x = claim_of(s, a);
    y = claim_of(s, b);
    if (x.key != y.key)
        return x.key < y.key;
    if (x.connection != y.connection)
        return x.connection < y.connection;
    return a->number < b->number;
}

static lm_reply *next_one(lm_schedule *s)
{
    lm_reply *best = NULL;

    for (lm_reply *r = s->first; r; r = r->next)
        if (can_be_placed(s, r) && (!best || precedes(s, r, best)) && !is_held(s, r))
            best = r;
    return best;
}

/* ---- admission ---- */

static void explain(lm_schedule *s, lm_reply *r, size_t cached)
{
    const lm_token  *ids  = r->sequence->ids, *there;
    size_t           n    = r->sequence->n, same, at;
    const lm_prefix *node = lm_prefixes_down(&s->prefixes, r->salt, ids, n), *child;
    size_t           deep = node ? ((size_t)node->depth + 1) * LM_PAGE : 0;

    if (!r->explains || atomic_load(&r->explained))
        return;
    child = lm_prefixes_nearest(&s->prefixes, node, r->salt, ids + deep, n - deep, &same);
    at    = deep + same;
    r->difference = (lm_cache_difference){
        .cached = cached, .same = at, .whole = at == n, .known = at < n && child
    };
    r->n_around[0] = at < LM_AROUND ? (uint32_t)at : LM_AROUND;
    r->n_around[1] = n - at < LM_AROUND ? (uint32_t)(n - at) : LM_AROUND;
    memcpy(r->around[0], ids + at - r->n_around[0], r->n_around[0] * sizeof *ids);
    memcpy(r->around[1], ids + at, r->n_around[1] * sizeof *ids);
    if (r->difference.known) {
        there          = child->tokens + same;
        r->n_around[2] = LM_PAGE - same < LM_AROUND ? (uint32_t)(LM_PAGE - same) : LM_AROUND;
        memcpy(r->around[2], there, r->n_around[2] * sizeof *there);
    }
    atomic_store(&r->explained, true);
}

static void admit(lm_schedule *s, lm_reply *r, lm_prefix *node, size_t cached)
{
    uint32_t slot = r->wanted ? r->wanted - 1 : lm_slot_find_free(s);

    for (lm_reply *q = s->first; q != r; q = q->next)
        q->passed += !q->held_for && can_be_placed(s, q);
    lm_queue_remove(s, r);
    explain(s, r, cached);
    lm_slot_assign(s, r, slot, node, cached);
}

void lm_admit(lm_schedule *s)
{
    while (s->first && lm_slot_find_free(s) != UINT32_MAX) {
        lm_reply  *r      = next_one(s);
        size_t     cached = 0;
        lm_prefix *node   = NULL;
        if (!r)
            return;
        if (!r->no_prefix)
            node = lm_prefixes_find(&s->prefixes, r->salt, r->sequence->ids, r->sequence->n, &cached);
        lm_prefixes_pin(node);
        bool room = fits(s, r, node);
        lm_prefixes_unpin(node);
        if (!room)
            return;
        admit(s, r, node, cached);
    }
}
