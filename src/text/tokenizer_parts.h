/* tokenizer_parts.h - the parts of tokenizer.json that surround its model. Each function takes the JSON of
 * its part, which may be null, and adds to the tokenizer. LM_UNSUPPORTED names an unknown kind. */
#ifndef LM_TEXT_TOKENIZER_PARTS_H
#define LM_TEXT_TOKENIZER_PARTS_H

#include <jansson.h>

#include "text/tokenizer.h"

lm_status lm_read_normalizer(lm_tokenizer *t, const json_t *part, lm_error *e);
lm_status lm_read_pre_tokenizer(lm_tokenizer *t, const json_t *part, lm_error *e);
lm_status lm_read_decoder(lm_tokenizer *t, const json_t *part, lm_error *e);
/* Call this after the vocabulary is complete. */
lm_status lm_read_post_processor(lm_tokenizer *t, const json_t *part, lm_error *e);

#endif
