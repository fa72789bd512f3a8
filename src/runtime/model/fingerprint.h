/* fingerprint.h - what distinguishes a model from every other. */
#ifndef LM_RUNTIME_FINGERPRINT_H
#define LM_RUNTIME_FINGERPRINT_H

#include "base/hash.h"
#include "runtime/model/model.h"

/* Return the overrides of the file that change what is computed ("rope_scaling yarn, …"; "" if there are
 * none); NULL: no memory. */
char *lm_model_overrides(lm_arena *arena, const lm_model_options *o);

#endif
