/* kv.h - pages of the cache. */
#ifndef LM_RUNTIME_KV_H
#define LM_RUNTIME_KV_H

#include "runtime/engine/state.h"

void lm_kv_reset(lm_engine *g);

/* Whether there are pages for lm_kv_reserve: LM_LIMIT when there are not. Those that windows have passed are given back. */
lm_status lm_kv_fits(lm_engine *g, lm_error *e);

/* Pages that the rows which were asked for last need and that are not free. Of use after LM_LIMIT. */
uint64_t lm_kv_missing(const lm_engine *g, uint32_t group);

/* Make positions [seq_length, seq_next) of every sequence writable: new pages, copies of shared ones. Either all or none:
 * LM_LIMIT when there are not enough. */
lm_status lm_kv_reserve(lm_engine *g, lm_error *e);

/* Pages at the beginning of a sequence of `length` positions that its window has left. */
uint32_t lm_kv_passed(const lm_engine *g, uint32_t group, uint32_t length);

/* Pages from number `first` on for `length` positions of an empty sequence: LM_LIMIT when there are not enough, and then none. */
lm_status lm_kv_hold(lm_engine *g, uint32_t group, uint32_t sequence, uint32_t first, uint32_t length, lm_error *e);

/* The first page that the query after `length` positions looks at. */
uint32_t lm_kv_first_seen(const lm_engine *g, uint32_t group, uint32_t length);

/* Page `i` of a sequence; NULL where there is none. */
uint8_t *lm_kv_page(const lm_engine *g, uint32_t group, uint32_t sequence, uint32_t i);

/* Give back what lies at or past position `keep`. */
void lm_kv_release(lm_engine *g, uint32_t sequence, uint32_t keep);

#endif
