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

/* Convert input (a string or items) and instructions to messages for a chat template. Instructions and system and developer messages,
 * wherever they are, become one message at the beginning. `warnings` lists skipped items. LM_USAGE names the item that cannot be read. *out
 * is the caller's. */
lm_status lm_response_messages(const lm_response_values *v, json_t *warnings, json_t **out, lm_error *e);

/* Fill in the `own` of a turn of lm_response_writer. Takes ownership of `settings` (NULL: out of memory), the members of the response that
 * repeat the request. The request's `input`, of which a reference is kept, and `previous` (NULL: none) are stored with the response.
 * `input` NULL: nothing is stored. */
lm_status lm_response_prepare(void *own, json_t *settings, json_t *input, const char *previous, lm_error *e);

/* Insert the items of the stored response `id` and of all responses before it at the beginning of `all`. 404: one of them is not stored. */
lm_status lm_response_before(lm_call *c, const char *id, json_t *all, lm_error *e);

extern const lm_writer lm_response_writer;

#endif
