/* fingerprint.h - what tells a model from every other. */
#ifndef LM_RUNTIME_FINGERPRINT_H
#define LM_RUNTIME_FINGERPRINT_H

#include "base/hash.h"
#include "runtime/engine/model.h"

/* Departures from the file that change what is computed ("rope_scaling yarn, …"; "" when there are none). */
char *lm_model_departures(lm_arena *arena, const lm_model_options *o);

#endif
