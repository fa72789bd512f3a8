/* ahead.h - while workers wait, they prefetch the weights of the next products. */
#ifndef LM_RUNTIME_AHEAD_H
#define LM_RUNTIME_AHEAD_H

#include "runtime/engine/state.h"

lm_status lm_ahead_new(lm_engine *g, lm_error *e);
/* Record that `stage` has begun. */
void      lm_ahead_set(lm_engine *g, uint32_t stage);
bool      lm_ahead_read(void *engine, unsigned worker);      /* prefetch a piece; false if there is none
                                                                left */

#endif
