/* cache.h - the key/value cache of a plan: groups of layers, pages, bytes. */
#ifndef LM_PLAN_CACHE_H
#define LM_PLAN_CACHE_H

#include "plan/plan.h"

/* Fill plan->groups, plan->layers and plan->kv_bytes from the program's caches and plan->options. */
lm_status lm_plan_cache(lm_plan *plan, lm_error *e);

#endif
