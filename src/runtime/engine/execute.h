/* execute.h - run a plan. */
#ifndef LM_RUNTIME_EXECUTE_H
#define LM_RUNTIME_EXECUTE_H

#include "runtime/engine/state.h"

/* Run the plan on the rows that the engine's arrays describe. */
lm_status lm_engine_execute(lm_engine *g, lm_error *e);

#endif
