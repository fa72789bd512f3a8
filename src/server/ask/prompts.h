/* prompts.h - the prompts of a request, as tokens.
 *
 * The caller of lm_prompts_read or lm_prompts_one frees the list with lm_prompts_free, also on failure.
 * Threads: any, one at a time per list. */
#ifndef LM_SERVER_PROMPTS_H
#define LM_SERVER_PROMPTS_H

#include <jansson.h>

#include "server/ask/request_limits.h"
#include "server/models/service.h"

typedef struct lm_prompts { lm_tokens *items; size_t n; } lm_prompts;

/* Read prompts in the form of OpenAI and llama.cpp: a string, ids, or an array of those. `max`: the limit of
 * their number. */
lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id max, lm_prompts *out,
                          lm_error *e);

/* Allocate a single empty prompt. */
lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e);
void      lm_prompts_free(lm_prompts *p);

#endif
