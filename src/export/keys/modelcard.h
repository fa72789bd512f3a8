/* modelcard.h - the front matter of a README.md, called the model card by hubs. */
#ifndef LM_EXPORT_MODELCARD_H
#define LM_EXPORT_MODELCARD_H

#include <jansson.h>

#include "base/str.h"

/* Return the top-level members that are text or lists of text: {"license": "mit", "tags": ["a", "b"]}. Nested
 * members are skipped. Without front matter the object is empty. NULL: out of memory. */
json_t *lm_model_card(lm_view readme);

#endif
