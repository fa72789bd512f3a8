/* page_owners.h - pages of the cache that are owned outside sequences: prefixes that later requests may begin
 * with.
 *
 * A page has one owner per table that names it and per lm_page_ref; it is free when it has none. Call all
 * functions on the thread that steps, between steps. */
#ifndef LM_RUNTIME_PAGE_OWNERS_H
#define LM_RUNTIME_PAGE_OWNERS_H

#include "runtime/engine/state.h"

static inline uint32_t lm_pages_groups(const lm_engine *g) { return g->plan->n_groups; }
static inline uint32_t lm_pages_total(const lm_engine *g, uint32_t group)
{
    return (uint32_t)g->plan->groups[group].n_pages;
}
static inline uint32_t lm_pages_free(const lm_engine *g, uint32_t group) { return g->pages[group].n_free; }
static inline uint32_t lm_pages_owners(const lm_engine *g, uint32_t group, uint32_t page)
{
    return g->pages[group].uses[page];
}

/* Add an owner to page number `i` of a sequence and return the page; LM_NONE if the sequence has no page
 * there. */
uint32_t lm_page_ref(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i);

/* Remove an owner of a page. LM_NONE: does nothing. */
void     lm_page_unref(lm_engine *g, uint32_t group, uint32_t page);

/* Make `page` page number `i` of a sequence that has none there, which adds an owner. LM_NONE: does
 * nothing. */
void     lm_page_assign(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page);

/* If a sequence has another page there, replace it by `page`: both are full and have the same contents.
 * LM_NONE: does nothing. */
void     lm_page_replace(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page);

/* Set the number of positions that the sequence, which has been given its pages, holds. */
void     lm_pages_set_length(lm_engine *g, uint32_t sequence, uint32_t length);

#endif
