/* kept.h - pages of the cache that somebody besides sequences keeps: prefixes that later texts may begin with.
 *
 * A page has as many owners as tables name it and as it was kept; it is free when there is none. All by the thread that steps,
 * between steps. */
#ifndef LM_RUNTIME_KEPT_H
#define LM_RUNTIME_KEPT_H

#include "runtime/engine/state.h"

static inline uint32_t lm_kept_groups(const lm_engine *g) { return g->plan->n_groups; }
static inline uint32_t lm_kept_total(const lm_engine *g, uint32_t group) { return (uint32_t)g->plan->groups[group].n_pages; }
static inline uint32_t lm_kept_free(const lm_engine *g, uint32_t group) { return g->pages[group].n_free; }
static inline uint32_t lm_kept_owners(const lm_engine *g, uint32_t group, uint32_t page) { return g->pages[group].uses[page]; }

/* Page number `i` of a sequence has one owner more; LM_NONE where it has none there. */
uint32_t lm_kept_take(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i);

/* And one less. LM_NONE: nothing. */
void     lm_kept_drop(lm_engine *g, uint32_t group, uint32_t page);

/* Page number `i` of a sequence without one there is this page, which has one owner more. LM_NONE: nothing. */
void     lm_kept_give(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page);

/* Where a sequence has another page there, it gets this one in its place: both are full of the same. LM_NONE: nothing. */
void     lm_kept_swap(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i, uint32_t page);

/* The sequence, which has been given its pages, holds so many positions. */
void     lm_kept_set_length(lm_engine *g, uint32_t sequence, uint32_t length);

#endif
