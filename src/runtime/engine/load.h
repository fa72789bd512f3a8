/* load.h - load weights into the places that the plan assigned. */
#ifndef LM_RUNTIME_LOAD_H
#define LM_RUNTIME_LOAD_H

#include "runtime/engine/state.h"

/* Fill float32 and packed weights; find the addresses of mapped ones. */
lm_status lm_engine_load(lm_engine *g, const lm_engine_options *o, lm_error *e);

/* Compute the tables that are derived from loaded weights: rotary frequencies, ALiBi slopes of heads. */
void lm_engine_load_tables(lm_engine *g);

#endif
