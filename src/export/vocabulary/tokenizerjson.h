/* tokenizerjson.h - a synthetic vocabulary as files of a Hugging Face folder. */
#ifndef LM_EXPORT_TOKENIZERJSON_H
#define LM_EXPORT_TOKENIZERJSON_H

#include <jansson.h>

#include "export/vocabulary/vocabulary.h"

/* Return new references; NULL: out of memory. */
json_t *lm_tokenizer_json(const lm_invented *v);
json_t *lm_tokenizer_config_json(const lm_invented *v);

#endif
