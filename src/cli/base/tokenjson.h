/* tokenjson.h - tokens as JSON: ids, vocabulary pieces, log-probabilities. */
#ifndef LM_CLI_TOKENJSON_H
#define LM_CLI_TOKENJSON_H

#include "cli/base/output.h"

json_t *lm_ids_json(const lm_token *ids, size_t n);

/* Append a JSON array of ids to `out`. LM_USAGE names the element that is not an id. */
lm_status lm_ids_of(const json_t *value, lm_tokens *out, lm_error *e);

/* {id, piece, text, bytes, logprob}: the vocabulary piece, its text and its bytes. With `t` NULL, piece is
 * null, text and bytes are omitted. */
json_t *lm_token_json(const lm_tokenizer *t, lm_token id, float logprob);

/* The same for each of up to k most probable tokens. */
json_t *lm_top_json(const lm_tokenizer *t, const lm_logprob *top, uint32_t k);

/* Append a vocabulary piece with control characters escaped: it may contain line ends. */
void lm_add_piece(lm_text *out, const char *piece, size_t n);

#endif
