/* kv.h - pages of the cache. */
#ifndef LM_RUNTIME_KV_H
#define LM_RUNTIME_KV_H

#include "runtime/engine/state.h"

void lm_kv_reset(lm_engine *g);

/* Return LM_OK if enough pages are free for lm_kv_reserve, else LM_LIMIT. Frees the pages that the windows of
 * all sequences have passed. */
lm_status lm_kv_fits(lm_engine *g, lm_error *e);

/* Return how many pages too few are free for the rows that were requested last. Useful after LM_LIMIT. */
uint64_t lm_kv_missing(const lm_engine *g, uint32_t group);

/* Make positions [seq_length, seq_next) of every sequence writable: new pages, copies of shared ones. Takes
 * all pages or none: LM_LIMIT if there are not enough. */
lm_status lm_kv_reserve(lm_engine *g, lm_error *e);

/* Return how many pages at the beginning of a sequence of `length` positions its window has passed. What the
 * next query attends to is kept after the sequence is truncated by options.rollback positions, or to the end
 * of its last full page, where a later sequence continues. */
uint32_t lm_kv_passed(const lm_engine *g, uint32_t group, uint32_t length);

/* Take pages from number `first` on for `length` positions of an empty sequence. LM_LIMIT: there are not
 * enough, and none is taken. */
lm_status lm_kv_allocate(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t first, uint32_t length,
                     lm_error *e);

/* Return the first page that the query after `length` positions attends to. */
uint32_t lm_kv_first_seen(const lm_engine *g, uint32_t group, uint32_t length);

/* Return whether a page of the group can hold what precedes position `length`: states are kept only at the
 * end of a page of positions. */
static inline bool lm_kv_can_begin(const lm_engine *g, uint32_t group, uint32_t length)
{
    return !g->plan->groups[group].states || length % LM_PAGE == 0;
}

/* After lm_kv_reserve and the step: hold the states that it read, so that the sequence can be taken back;
 * or, if it did not run, drop those that it was to write. */
void lm_kv_end_step(lm_engine *g, bool ran);

/* During a step: return a state of a sequence before the step (NULL: zero), and the one that the step
 * writes. */
const float *lm_kv_state(const lm_engine *g, uint32_t state, uint32_t sequence);
float       *lm_kv_next_state(const lm_engine *g, uint32_t state, uint32_t sequence);

/* Return page `i` of a sequence; NULL if there is none. */
uint8_t *lm_kv_page(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i);

/* Release the pages at or past position `keep`. */
void lm_kv_release(lm_engine *g, uint32_t sequence, uint32_t keep);

#endif
