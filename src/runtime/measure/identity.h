/* identity.h - identify the results of an engine: results with different identities are not mixed. */
#ifndef LM_RUNTIME_IDENTITY_H
#define LM_RUNTIME_IDENTITY_H

#include "base/hash.h"
#include "lamina/engine.h"

/* Hash what results depend on, as for a saved sequence: model and its options, arithmetic, instruction set,
 * cache, version; and the adapters of sequence 0. */
lm_status lm_identity_add(lm_blake2b *h, lm_engine *g, lm_error *e);

#endif
