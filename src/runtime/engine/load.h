/* load.h - weights into the places that the plan gave them. */
#ifndef LM_RUNTIME_LOAD_H
#define LM_RUNTIME_LOAD_H

#include "runtime/engine/state.h"

/* Fill float32 weights and packed ones; find where mapped ones lie. */
lm_status lm_engine_load(lm_engine *g, const lm_engine_options *o, lm_error *e);

/* What is made of weights that are there: frequencies of rotations, slopes of heads. */
void lm_engine_load_tables(lm_engine *g);

#endif
