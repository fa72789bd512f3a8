/* kv.c - pages of the cache: a page table per sequence, reference counts, copies when a shared page is
 * written. */
#include "runtime/engine/kv.h"
#include "runtime/engine/broadcast.h"

#include <inttypes.h>
#include <string.h>

static uint32_t *table_of(const lm_engine *g, uint32_t group, uint32_t sequence)
{
    return g->pages[group].tables + (size_t)sequence * g->plan->groups[group].pages_per_sequence;
}

static uint8_t *page_at(const lm_engine *g, uint32_t group, uint32_t page)
{
    const lm_kv_group *k = &g->plan->groups[group];

    return g->kv + k->offset + (uint64_t)page * k->page_bytes;
}

void lm_kv_reset(lm_engine *g)
{
    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        const lm_kv_group *k = &g->plan->groups[i];
        lm_pages          *p = &g->pages[i];
        size_t             n = (size_t)g->plan->options.sequences * k->pages_per_sequence;
        for (size_t t = 0; t < n; t++)
            p->tables[t] = LM_NONE;
        /* page 0 is taken first */
        p->n_free = (uint32_t)k->n_pages;
        for (uint32_t f = 0; f < p->n_free; f++) {
            p->free[f] = p->n_free - 1 - f;
            p->uses[f] = 0;
        }
    }
    for (uint32_t s = 0; s < g->plan->options.sequences; s++)
        g->seq_length[s] = 0;
    for (uint32_t s = 0; g->program->n_states && s < g->plan->options.sequences; s++)
        g->page_before[s] = LM_NONE;
}

static uint32_t take_page(lm_pages *p)
{
    uint32_t page = p->free[--p->n_free];

    p->uses[page] = 1;
    return page;
}

static void drop_page(lm_pages *p, uint32_t *entry)
{
    if (*entry != LM_NONE && --p->uses[*entry] == 0)
        p->free[p->n_free++] = *entry;
    *entry = LM_NONE;
}

/* Return the page of positions that contains the last of `length` positions. */
static uint32_t last_page(uint32_t length)
{
    return length ? (length - 1) / LM_PAGE : 0;
}

uint32_t lm_kv_passed(const lm_engine *g, uint32_t group, uint32_t length)
{
    if (g->plan->groups[group].states)   /* kept: the end of the last full page, and the last position */
        return length >= LM_PAGE ? length / LM_PAGE - 1 : 0;
    const lm_kv_group *k = &g->plan->groups[group];
    uint32_t           rollback = g->plan->options.rollback;
    uint64_t next = (uint64_t)length + 1 < rollback ? 0 : (uint64_t)length + 1 - rollback;
    uint64_t full = length / LM_PAGE * LM_PAGE, last = next < full ? next : full;

    return k->window && last ? lm_first_seen(k->window, k->chunked, (uint32_t)last - 1) / LM_PAGE : 0;
}

/* Release pages that the sequence no longer keeps (lm_kv_passed): all their keys are past the window. */
static void drop_passed(lm_engine *g, uint32_t group, uint32_t sequence)
{
    uint32_t *table = table_of(g, group, sequence), gone = lm_kv_passed(g, group, g->seq_length[sequence]);

    for (uint32_t i = 0; i < gone; i++)
        drop_page(&g->pages[group], &table[i]);
}

/* Return how many sequences before this one copy the same page in this step: each of them gives up its
 * reference. */
static uint32_t copied_before(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t page)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < sequence; s++)
        n += g->seq_next[s] != g->seq_length[s] && table_of(g, group, s)[g->seq_length[s] / LM_PAGE] == page;
    return n;
}

/* Return how many pages the step needs for one sequence. Only the first page that it writes can be shared:
 * the last owner keeps it. */
static uint32_t need_pages(const lm_engine *g, uint32_t group, uint32_t sequence)
{
    const lm_pages *p     = &g->pages[group];
    if (g->plan->groups[group].states)
        return g->page_before[sequence] == LM_NONE || p->uses[g->page_before[sequence]] > 1;
    const uint32_t *table = table_of(g, group, sequence);
    uint32_t first = g->seq_length[sequence] / LM_PAGE, last = (g->seq_next[sequence] - 1) / LM_PAGE, n = 0;

    if (table[first] != LM_NONE && p->uses[table[first]] > 1)
        n = p->uses[table[first]] - copied_before(g, group, sequence, table[first]) > 1;
    for (uint32_t i = first; i <= last; i++)
        n += table[i] == LM_NONE;
    return n;
}

static void drop_before(lm_engine *g, uint32_t sequence)
{
    if (g->program->n_states)
        drop_page(&g->pages[g->plan->state_group], &g->page_before[sequence]);
}

/* Take the page of states that the step writes, and hold the one that it reads. The sequence keeps the latter
 * too, if it ends a page of positions. */
static void take_states(lm_engine *g, uint32_t group, uint32_t sequence)
{
    uint32_t  length = g->seq_length[sequence], *table = table_of(g, group, sequence);
    uint32_t *now = &table[last_page(length)];

    drop_before(g, sequence);
    if (length)
        g->page_before[sequence] = *now;
    if (length && length % LM_PAGE == 0)
        g->pages[group].uses[*now]++;
    else
        *now = LM_NONE;
    table[last_page(g->seq_next[sequence])] = take_page(&g->pages[group]);
}

void lm_kv_end_step(lm_engine *g, bool ran)
{
    uint32_t group = g->plan->state_group;

    for (uint32_t s = 0; g->program->n_states && s < g->plan->options.sequences; s++) {
        uint32_t *table = table_of(g, group, s), *before = &g->page_before[s];
        if (g->seq_next[s] == g->seq_length[s])
            continue;
        if (!ran)
            drop_page(&g->pages[group], &table[last_page(g->seq_next[s])]);
        g->length_before[s] = g->seq_length[s];
        if (ran)                         /* the sequence may be taken back: lm_engine_truncate */
            continue;
        if (g->seq_length[s] % LM_PAGE == 0)
            drop_page(&g->pages[group], before);
        else
            table[last_page(g->seq_length[s])] = *before;
        *before = LM_NONE;
    }
}

static float *state_at(const lm_engine *g, uint32_t state, uint32_t page)
{
    return (float *)(void *)(page_at(g, g->plan->state_group, page) + g->plan->states[state]);
}

const float *lm_kv_state(const lm_engine *g, uint32_t state, uint32_t sequence)
{
    uint32_t page = g->page_before[sequence];

    return page == LM_NONE ? NULL : state_at(g, state, page);
}

float *lm_kv_next_state(const lm_engine *g, uint32_t state, uint32_t sequence)
{
    const uint32_t *table = table_of(g, g->plan->state_group, sequence);

    return state_at(g, state, table[last_page(g->seq_next[sequence])]);
}

static void take_pages(lm_engine *g, uint32_t group, uint32_t sequence)
{
    if (g->plan->groups[group].states) {
        take_states(g, group, sequence);
        return;
    }
    lm_pages *p     = &g->pages[group];
    uint32_t *table = table_of(g, group, sequence);

    for (uint32_t i = g->seq_length[sequence] / LM_PAGE; i <= (g->seq_next[sequence] - 1) / LM_PAGE; i++) {
        bool shared = table[i] != LM_NONE && p->uses[table[i]] > 1;
        if (table[i] != LM_NONE && !shared)
            continue;
        uint32_t fresh = take_page(p);
        if (shared) {
            memcpy(page_at(g, group, fresh), page_at(g, group, table[i]), g->plan->groups[group].page_bytes);
            p->uses[table[i]]--;
        }
        table[i] = fresh;
    }
}

static lm_status too_few(const lm_engine *g, uint32_t group, uint64_t need, lm_error *e)
{
    return lm_fail(e, LM_LIMIT, "cache", LM_NO_OFFSET,
                   "%" PRIu64 " pages of %u positions are needed, %u are free", need, LM_PAGE,
                   (uint32_t)g->pages[group].n_free);
}

static uint64_t need_of_all(const lm_engine *g, uint32_t group)
{
    uint64_t need = 0;

    for (uint32_t s = 0; s < g->plan->options.sequences; s++)
        if (g->seq_next[s] != g->seq_length[s])
            need += need_pages(g, group, s);
    return need;
}

uint64_t lm_kv_missing(const lm_engine *g, uint32_t group)
{
    uint64_t need = need_of_all(g, group), n = g->pages[group].n_free;

    return need > n ? need - n : 0;
}

lm_status lm_kv_fits(lm_engine *g, lm_error *e)
{
    uint32_t n = g->plan->options.sequences;

    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        for (uint32_t s = 0; s < n; s++)
            drop_passed(g, i, s);
        uint64_t need = need_of_all(g, i);
        if (need > g->pages[i].n_free)
            return too_few(g, i, need, e);
    }
    return LM_OK;
}

lm_status lm_kv_reserve(lm_engine *g, lm_error *e)
{
    uint32_t n = g->plan->options.sequences;

    LM_TRY(lm_kv_fits(g, e));
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        for (uint32_t s = 0; s < n; s++)
            if (g->seq_next[s] != g->seq_length[s])
                take_pages(g, i, s);
    return LM_OK;
}

lm_status lm_kv_allocate(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t first, uint32_t length,
                     lm_error *e)
{
    uint32_t *table = table_of(g, group, sequence),
             end = (uint32_t)(((uint64_t)length + LM_PAGE - 1) / LM_PAGE);

    if (end > first && end - first > g->pages[group].n_free)
        return too_few(g, group, end - first, e);
    for (uint32_t i = first; i < end; i++)
        table[i] = take_page(&g->pages[group]);
    return LM_OK;
}

uint8_t *lm_kv_page(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i)
{
    uint32_t page = table_of(g, group, sequence)[i];

    return page == LM_NONE ? NULL : page_at(g, group, page);
}

void lm_kv_release(lm_engine *g, uint32_t sequence, uint32_t keep)
{
    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        uint32_t *table = table_of(g, i, sequence);
        for (uint32_t t = (keep + LM_PAGE - 1) / LM_PAGE; t < g->plan->groups[i].pages_per_sequence; t++)
            drop_page(&g->pages[i], &table[t]);
    }
}

uint32_t lm_kv_first_seen(const lm_engine *g, uint32_t group, uint32_t length)
{
    const lm_kv_group *k = &g->plan->groups[group];

    if (k->states)
        return last_page(length);
    return lm_first_seen(k->window, k->chunked, length) / LM_PAGE;
}

/* Return whether what precedes position `next` of the sequence is still stored: all keys that its query would
 * attend to, or the states. */
static bool window_is_whole(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t next)
{
    const uint32_t *table = table_of(g, group, sequence);

    if (!lm_kv_can_begin(g, group, next) && next != g->seq_length[sequence])
        return false;
    for (uint32_t i = lm_kv_first_seen(g, group, next); i * LM_PAGE < next; i++)
        if (table[i] == LM_NONE)
            return false;
    return true;
}

/* Return whether the states after position `keep` of a sequence are still stored. */
static bool states_are_kept(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t keep)
{
    if (g->page_before[sequence] != LM_NONE && keep == g->length_before[sequence])
        return true;
    return keep % LM_PAGE == 0 && table_of(g, group, sequence)[last_page(keep)] != LM_NONE;
}

/* Return whether a sequence can be cut back to `keep` positions. */
static bool can_keep(const lm_engine *g, uint32_t sequence, uint32_t keep)
{
    for (uint32_t i = 0; keep && i < g->plan->n_groups; i++)
        if (g->plan->groups[i].states ? !states_are_kept(g, i, sequence, keep)
                                      : !window_is_whole(g, i, sequence, keep))
            return false;
    return true;
}

/* Make the states after position `keep`, which are stored, those of the sequence. */
static void return_to_states(lm_engine *g, uint32_t sequence, uint32_t keep)
{
    uint32_t group = g->plan->state_group, *before = &g->page_before[sequence];

    if (*before != LM_NONE && keep && keep == g->length_before[sequence]) {
        uint32_t *entry = &table_of(g, group, sequence)[last_page(keep)];
        drop_page(&g->pages[group], entry);
        *entry  = *before;
        *before = LM_NONE;
    }
    drop_before(g, sequence);
}

static lm_status check_sequence(const lm_engine *g, uint32_t sequence, lm_error *e)
{
    if (sequence < g->plan->options.sequences)
        return LM_OK;
    return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u of %u", sequence, g->plan->options.sequences);
}

lm_status lm_engine_truncate(lm_engine *g, uint32_t sequence, uint32_t keep, lm_error *e)
{
    LM_REQUIRE(e, g);
    LM_TRY(check_sequence(g, sequence, e));
    if (keep >= g->seq_length[sequence])
        return LM_OK;
    if (!can_keep(g, sequence, keep))
        return lm_fail(e, LM_LIMIT, "sequence", LM_NO_OFFSET,
                       g->program->n_states ? "the states after position %u are not stored"
                                            : "keys before position %u are outside the window", keep);
    lm_broadcast(g, LM_BROADCAST_TRUNCATE, sequence, keep, 0, 0);
    if (g->program->n_states)
        return_to_states(g, sequence, keep);
    if (keep == 0)
        for (uint32_t i = 0; i < g->plan->n_groups; i++)
            for (uint32_t t = 0; t < g->plan->groups[i].pages_per_sequence; t++)
                drop_page(&g->pages[i], &table_of(g, i, sequence)[t]);
    lm_kv_release(g, sequence, keep);
    /* none of its rows are requested any more: lm_kv_missing */
    g->seq_length[sequence] = g->seq_next[sequence] = keep;
    return LM_OK;
}

/* Return the last position up to `keep` to which a sequence can be cut back: where a page or the step before
 * ended, or 0. */
static uint32_t last_kept(const lm_engine *g, uint32_t sequence, uint32_t keep)
{
    uint32_t before = 0, page = keep / LM_PAGE * LM_PAGE;

    if (g->program->n_states && g->page_before[sequence] != LM_NONE)
        before = g->length_before[sequence];
    while (page && !can_keep(g, sequence, page))
        page -= LM_PAGE;
    return before <= keep && before > page && can_keep(g, sequence, before) ? before : page;
}

lm_status lm_engine_keep(lm_engine *g, uint32_t sequence, uint32_t keep, uint32_t *kept, lm_error *e)
{
    LM_REQUIRE(e, g && kept);
    lm_status status = lm_engine_truncate(g, sequence, keep, e);

    if (status == LM_LIMIT)
        status = lm_engine_truncate(g, sequence, last_kept(g, sequence, keep), e);
    *kept = lm_engine_length(g, sequence);
    return status;
}

lm_status lm_engine_share(lm_engine *g, uint32_t from, uint32_t to, uint32_t positions, lm_error *e)
{
    LM_REQUIRE(e, g);
    LM_TRY(check_sequence(g, from, e));
    LM_TRY(check_sequence(g, to, e));
    if (from == to || g->seq_length[to] != 0 || positions > g->seq_length[from])
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET,
                       "only the beginning of another sequence can be shared, into an empty one");
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        if (!window_is_whole(g, i, from, positions))
            return lm_fail(e, LM_LIMIT, "sequence", LM_NO_OFFSET,
                           "keys before position %u are outside the window", positions);
    lm_broadcast(g, LM_BROADCAST_SHARE, from, to, positions, 0);
    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        uint32_t *source = table_of(g, i, from), *target = table_of(g, i, to);
        for (uint32_t t = 0; t * LM_PAGE < positions; t++) {
            target[t] = source[t];
            if (source[t] != LM_NONE)
                g->pages[i].uses[source[t]]++;
        }
    }
    g->seq_length[to] = positions;
    return LM_OK;
}

void lm_engine_pages(const lm_engine *g, uint64_t *used, uint64_t *total)
{
    uint64_t all = 0, unused = 0;

    for (uint32_t i = 0; g && i < g->plan->n_groups; i++) {
        all += g->plan->groups[i].n_pages;
        unused += g->pages[i].n_free;
    }
    if (used)
        *used = all - unused;
    if (total)
        *total = all;
}
