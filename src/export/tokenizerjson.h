/* tokenizerjson.h - an invented vocabulary as the files of a Hugging Face folder. */
#ifndef LM_EXPORT_TOKENIZERJSON_H
#define LM_EXPORT_TOKENIZERJSON_H

#include <jansson.h>

#include "export/vocabulary.h"

/* New references; NULL without memory. */
json_t *lm_tokenizer_json(const lm_invented *v);
json_t *lm_tokenizer_config_json(const lm_invented *v);

#endif
