/* embeddings.h - embedding vectors of texts, for the dialects that return them. */
#ifndef LM_SERVER_EMBEDDINGS_H
#define LM_SERVER_EMBEDDINGS_H

#include "server/ask/read_job.h"

/* Compute the vectors of the texts of `input` (as in lm_prompts_read); `document` makes the response from
 * them. `dimensions`: only the first of them; 0: all. `raw`: vectors are not normalized; otherwise each has
 * length 1. */
lm_status lm_embeddings(lm_call *c, json_t *input, uint32_t dimensions, bool raw,
                        json_t *(*document)(const lm_read_job *r), lm_error *e);

/* For `document`: return the vector of text i, an array of numbers or, if requested, base64; NULL: out of
 * memory. */
json_t   *lm_embedding_json(const lm_read_job *r, size_t i);

#endif
