/* slab.h - where each buffer of a plan lies: buffers whose lives overlap never overlap in memory. */
#ifndef LM_PLAN_SLAB_H
#define LM_PLAN_SLAB_H

#include "plan/plan.h"

/* Sets the offsets; *bytes is what all of them need. Largest first, each at the lowest place that is free for its whole
 * life. LM_NO_FIT when the sum overflows. `scratch`: [4 n]. */
lm_status lm_slab_place(lm_buffer *buffers, uint32_t n, uint64_t *scratch, uint64_t *bytes, lm_error *e);

#endif
