/* token_bytes.h - what one token adds to a text, as bytes: half characters too. */
#ifndef LM_TEXT_TOKEN_BYTES_H
#define LM_TEXT_TOKEN_BYTES_H

#include "lamina/text.h"

/* Appended to `out`, as in the middle of a text. *text: false for control tokens and holes in the numbering, which add nothing. */
lm_status lm_token_spelled(const lm_tokenizer *t, lm_token id, bool *text, lm_text *out, lm_error *e);

#endif
