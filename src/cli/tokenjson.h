/* tokenjson.h - tokens as commands show them: ids, spellings, log-probabilities. */
#ifndef LM_CLI_TOKENJSON_H
#define LM_CLI_TOKENJSON_H

#include "cli/output.h"

json_t *lm_ids_json(const lm_token *ids, size_t n);

/* An array of ids, appended to `out`; LM_USAGE says what is none. */
lm_status lm_ids_of(const json_t *value, lm_tokens *out, lm_error *e);

/* {id, piece, text, logprob}: as the vocabulary spells it, and as it reads. `t` may be NULL. */
json_t *lm_token_json(const lm_tokenizer *t, lm_token id, float logprob);

/* The same of each of the k best; those that there are. */
json_t *lm_top_json(const lm_tokenizer *t, const lm_logprob *top, uint32_t k);

/* A spelling on one line: a vocabulary may hold line ends. */
void lm_add_piece(lm_text *out, const char *piece, size_t n);

#endif
