/* slab.h - place the buffers of a plan: buffers whose lifetimes overlap never overlap in memory. */
#ifndef LM_PLAN_SLAB_H
#define LM_PLAN_SLAB_H

#include "plan/plan.h"

/* Set the offsets; *bytes is the total size. Buffers are placed largest first, each at the lowest offset that
 * is free during its whole lifetime. LM_NO_FIT if the sum overflows. `scratch`: [4 n]. */
lm_status lm_slab_place(lm_buffer *buffers, uint32_t n, uint64_t *scratch, uint64_t *bytes, lm_error *e);

#endif
