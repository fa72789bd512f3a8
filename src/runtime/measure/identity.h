/* identity.h - which results an engine gives: results of another identity are not mixed with them. */
#ifndef LM_RUNTIME_IDENTITY_H
#define LM_RUNTIME_IDENTITY_H

#include "base/hash.h"
#include "lamina/engine.h"

/* What a saved sequence is bound to: model and its options, arithmetic, instruction set, cache, version. */
lm_status lm_identity_add(lm_blake2b *h, lm_engine *g, lm_error *e);

#endif
