/* page_owners.c - owners of pages other than sequences. */
#include "runtime/engine/page_owners.h"

#include "runtime/engine/broadcast.h"

static uint32_t *entry(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i)
{
    return g->pages[group].tables + (size_t)sequence * g->plan->groups[group].pages_per_sequence + i;
}

uint32_t lm_page_ref(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i)
{
    uint32_t page = *entry(g, group, sequence, i);

    lm_broadcast(g, LM_BROADCAST_PAGE_REF, group, sequence, i, 0);
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

void lm_page_unref(lm_engine *g, uint32_t group, uint32_t page)
{
    lm_broadcast(g, LM_BROADCAST_PAGE_UNREF, group, page, 0, 0);
    drop(g, group, page);
}

void lm_page_assign(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page)
{
    if (page == LM_NONE)
        return;
    lm_broadcast(g, LM_BROADCAST_PAGE_ASSIGN, group, sequence, i, page);
    *entry(g, group, sequence, i) = page;
    g->pages[group].uses[page]++;
}

void lm_page_replace(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page)
{
    uint32_t *own = entry(g, group, sequence, i);

    if (page == LM_NONE || *own == LM_NONE || *own == page)
        return;
    lm_broadcast(g, LM_BROADCAST_PAGE_REPLACE, group, sequence, i, page);
    drop(g, group, *own);
    *own = page;
    g->pages[group].uses[page]++;
}

void lm_pages_set_length(lm_engine *g, uint32_t sequence, uint32_t length)
{
    lm_broadcast(g, LM_BROADCAST_LENGTH, sequence, length, 0, 0);
    g->seq_length[sequence] = length;
}
