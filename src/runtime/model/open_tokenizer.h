/* open_tokenizer.h - the tokenizer that a container includes. */
#ifndef LM_RUNTIME_OPEN_TOKENIZER_H
#define LM_RUNTIME_OPEN_TOKENIZER_H

#include "formats/container.h"
#include "lamina/text.h"

/* Open a tokenizer from GGUF keys or from the folder's files. *out is NULL if the container includes none. */
lm_status lm_tokenizer_from_container(lm_container *c, const lm_tokenizer_options *o, lm_tokenizer **out,
                                      lm_error *e);

#endif
