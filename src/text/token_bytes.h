/* token_bytes.h - the bytes that one token adds to a text, including partial characters. */
#ifndef LM_TEXT_TOKEN_BYTES_H
#define LM_TEXT_TOKEN_BYTES_H

#include "lamina/text.h"

/* Append the bytes of a token as in the middle of a text. *text: false for special, control,
 * unknown and unused tokens, which add nothing. */
lm_status lm_token_spelled(const lm_tokenizer *t, lm_token id, bool *text, lm_text *out, lm_error *e);

#endif
