/* token_json.h - tokens in responses. A token may contain incomplete characters; then its bytes are needed in
 * addition to its text. Each function returns a new value; NULL: out of memory. */
#ifndef LM_SERVER_TOKEN_JSON_H
#define LM_SERVER_TOKEN_JSON_H

#include <jansson.h>

#include "lamina/text.h"

/* Return the token's text; for incomplete characters "bytes:\\xf0\\x9f", as in OpenAI's API. */
json_t *lm_token_text(const lm_tokenizer *t, lm_token id);

/* Return the token's text; for incomplete characters the array of its bytes, as in llama.cpp's pieces. */
json_t *lm_token_piece(const lm_tokenizer *t, lm_token id);

/* Return the token's bytes as an array. */
json_t *lm_token_byte_list(const lm_tokenizer *t, lm_token id);

/* Convert `tokens` of a choice, [{id, logprob, top}], to OpenAI's form: [{id, token, logprob, bytes,
 * top_logprobs}]. */
json_t *lm_token_logprobs(const lm_tokenizer *t, const json_t *tokens);

#endif
