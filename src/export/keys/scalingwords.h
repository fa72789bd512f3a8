/* scalingwords.h - a rotary scaling as config.json has it. */
#ifndef LM_EXPORT_SCALINGWORDS_H
#define LM_EXPORT_SCALINGWORDS_H

#include <jansson.h>

#include "arch/config.h"

/* Set *out, the caller's to free, to the object of a scaling, or NULL if there is none. Parameters of llama3
 * are recovered from the divisors of GGUF. LM_UNSUPPORTED: the divisors are of no scaling that config.json
 * has a form for. LM_BAD_MODEL: a tensor of factors is missing. */
lm_status lm_scaling_words(const lm_container *stored, const lm_rope_spec *r, json_t **out, lm_error *e);

#endif
