/* responses.h - requests and responses of OpenAI's POST /v1/responses, as a document or as events. */
#ifndef LM_SERVER_RESPONSES_H
#define LM_SERVER_RESPONSES_H

#include "server/dialects/response_items.h"

typedef struct lm_response_turn {
    lm_turn     turn;
    const char *instructions, *previous;
    json_t     *input, *text, *tools, *tool_choice, *include, *metadata, *reasoning;
    int64_t     max_output_tokens;
    bool        store;
    /* Of the writer. */
    json_t     *settings;            /* the members of the response that repeat the request */
    json_t     *stored_input;        /* NULL: not to be stored */
    char        stored_previous[64];
    lm_response_items items;
} lm_response_turn;

/* Convert input (a string or items) and instructions to messages for a chat template. Instructions and system
 * and developer messages, wherever they are, become one message at the beginning. `warnings` lists skipped
 * items. LM_USAGE names the item that cannot be read. *out is the caller's. */
lm_status lm_response_messages(const char *instructions, json_t *input, json_t *warnings, json_t **out,
                               lm_error *e);

/* Convert `tools` and `tool_choice` to functions, as lm_tools_read takes them: those of a namespace are named
 * NAMESPACE__NAME, a custom tool has one string, `input`, with its grammar. Fills items.called. Hosted tools
 * that clients list for every server are left out with a warning; others that are not called by the client
 * are LM_USAGE. */
lm_status lm_response_tools(lm_response_turn *v, json_t *warnings, lm_error *e);

/* Write the name of a tool of a namespace (NULL or "": none) as the model sees it. */
void lm_response_tool_name(const char *space, const char *name, lm_text *out);

/* Insert the items of the stored response `id` and of all responses before it at the beginning of `all`. 404:
 * one of them is not stored. */
lm_status lm_response_before(lm_call *c, const char *id, json_t *all, lm_error *e);

extern const lm_writer lm_response_writer;           /* of an lm_response_turn */

#endif
