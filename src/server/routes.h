/* routes.h - the descriptors that make up the table of call.h, each in the file of its dialect. */
#ifndef LM_SERVER_ROUTES_H
#define LM_SERVER_ROUTES_H

#include "server/call.h"

#define LM_ROUTE_LIST(X)                                                                                    \
    X(chat_completions) X(completions) X(models) X(model) X(embeddings)                                     \
    X(responses) X(response_tokens) X(response) X(response_delete) X(response_items) X(usage)               \
    X(completion) X(tokenize) X(detokenize) X(apply_template) X(props) X(slots) X(slot_action)              \
    X(messages) X(count_tokens)                                                                              \
    X(ollama_chat) X(ollama_generate) X(ollama_embed) X(ollama_tags) X(ollama_show) X(ollama_ps)            \
    X(ollama_version) X(ollama_root)                                                                        \
    X(tokenizer_info) X(health) X(metrics) X(openapi)

#define X(name) extern const lm_route lm_route_##name;
LM_ROUTE_LIST(X)
#undef X

#endif
