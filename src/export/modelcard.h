/* modelcard.h - the front matter of a README.md: what hubs call the card of a model. */
#ifndef LM_EXPORT_MODELCARD_H
#define LM_EXPORT_MODELCARD_H

#include <jansson.h>

#include "base/str.h"

/* The members of its first level that are text or lists of text: {"license": "mit", "tags": ["a", "b"]}; nested ones are left out. An
 * empty object where
 * there is no front matter. NULL: out of memory. */
json_t *lm_model_card(lm_view readme);

#endif
