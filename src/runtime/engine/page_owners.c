/* page_owners.c - owners of pages other than sequences. */
#include "runtime/engine/page_owners.h"

#include "runtime/engine/lead.h"

static uint32_t *entry(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i)
{
    return g->pages[group].tables + (size_t)sequence * g->plan->groups[group].pages_per_sequence + i;
}

uint32_t lm_pages_take(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i)
{
    uint32_t page = *entry(g, group, sequence, i);

    lm_lead(g, LM_LEAD_TAKE, group, sequence, i, 0);
    if (page != LM_NONE)
        g->pages[group].uses[page]++;
    return page;
}

static void drop(lm_engine *g, uint32_t group, uint32_t page)
{
    lm_pages *p = &g->pages[group];

    if (page != LM_NONE && --p->uses[page] == 0)
        p->free[p->n_free++] = page;
}

void lm_pages_drop(lm_engine *g, uint32_t group, uint32_t page)
{
    lm_lead(g, LM_LEAD_DROP, group, page, 0, 0);
    drop(g, group, page);
}

void lm_pages_assign(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page)
{
    if (page == LM_NONE)
        return;
    lm_lead(g, LM_LEAD_GIVE, group, sequence, i, page);
    *entry(g, group, sequence, i) = page;
    g->pages[group].uses[page]++;
}

void lm_pages_replace(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page)
{
    uint32_t *own = entry(g, group, sequence, i);

    if (page == LM_NONE || *own == LM_NONE || *own == page)
        return;
    lm_lead(g, LM_LEAD_SWAP, group, sequence, i, page);
    drop(g, group, *own);
    *own = page;
    g->pages[group].uses[page]++;
}

void lm_pages_set_length(lm_engine *g, uint32_t sequence, uint32_t length)
{
    lm_lead(g, LM_LEAD_LENGTH, sequence, length, 0, 0);
    g->seq_length[sequence] = length;
}
