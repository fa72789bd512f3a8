/* responses.h - requests and responses of OpenAI's POST /v1/responses, as a document or as events. */
#ifndef LM_SERVER_RESPONSES_H
#define LM_SERVER_RESPONSES_H

#include "server/ask/ask.h"

typedef struct lm_response_values {
    lm_params    params;
    const char *model, *instructions, *previous;
    json_t     *input, *text, *tools, *tool_choice, *include, *metadata, *reasoning;
    int64_t     max_output_tokens;
    bool        parallel_tool_calls, store;
} lm_response_values;

/* Input (a string or items) and instructions as messages for a chat template: what system and developer messages say, wherever they stand,
 * is one message at the beginning. Items that are skipped are named in `warnings`. LM_USAGE names the item that cannot be read. *out is
 * the caller's. */
lm_status lm_response_messages(const lm_response_values *v, json_t *warnings, json_t **out, lm_error *e);

/* Into the own of a turn of lm_response_writer. `settings` (stolen; NULL: out of memory): members of the answer that repeat the request.
 * `input` of the request, kept, and `previous` (NULL: none) are stored with it; `input` NULL: nothing is. */
lm_status lm_response_prepare(void *own, json_t *settings, json_t *input, const char *previous, lm_error *e);

/* Items of the stored response `id` and of all before it, put before those of `all`. 404: one is not there. */
lm_status lm_response_before(lm_call *c, const char *id, json_t *all, lm_error *e);

extern const lm_writer lm_response_writer;

#endif
