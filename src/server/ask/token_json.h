/* token_json.h - tokens in responses. A token need not be whole characters, and then its bytes are needed beside its text. */
#ifndef LM_SERVER_TOKEN_JSON_H
#define LM_SERVER_TOKEN_JSON_H

#include <jansson.h>

#include "lamina/text.h"

/* Its text; of one that is no whole characters "bytes:\\xf0\\x9f", as OpenAI's. */
json_t *lm_token_text(const lm_tokenizer *t, lm_token id);

/* Its text; of one that is no whole characters the array of its bytes, as llama.cpp's pieces. */
json_t *lm_token_piece(const lm_tokenizer *t, lm_token id);

/* Its bytes, always as an array. */
json_t *lm_token_byte_list(const lm_tokenizer *t, lm_token id);

/* `tokens` of a choice, [{id, logprob, top}], as OpenAI's: [{id, token, logprob, bytes, top_logprobs}]. */
json_t *lm_token_logprobs(const lm_tokenizer *t, const json_t *tokens);

#endif
