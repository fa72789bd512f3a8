/* embeddings.h - vectors of texts, for the dialects that have them. */
#ifndef LM_SERVER_EMBEDDINGS_H
#define LM_SERVER_EMBEDDINGS_H

#include "server/ask/read_job.h"

/* Read the texts of `input` (as lm_prompts_read takes them); `document` makes the answer of their vectors. `raw`: as they are, else each
 * has length 1. */
lm_status lm_embeddings(lm_call *c, json_t *input, bool raw, json_t *(*document)(const lm_read_job *r), lm_error *e);

/* For `document`: the vector of text i, an array of numbers; NULL: out of memory. */
json_t   *lm_embedding_json(const lm_read_job *r, size_t i);

#endif
