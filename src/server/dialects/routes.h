/* routes.h - the descriptors that make up the table of call.h, each in the file of its dialect. */
#ifndef LM_SERVER_ROUTES_H
#define LM_SERVER_ROUTES_H

#include "server/ask/call.h"

/* E: routes that a build without `explain` does not have. */
#define LM_ROUTES(X, E)                                                                                 \
    X(chat_completions) X(chat_tokens) X(completions) X(models) X(model) X(embeddings)                      \
    X(native_embedding) X(rerank) X(responses) X(response_tokens) X(response) X(response_delete)            \
    X(response_items) X(usage) X(completion) X(infill) X(tokenize) X(detokenize) X(apply_template)          \
    X(props) X(slots) X(slot_action) X(loras) X(set_loras) X(messages) X(count_tokens) X(ollama_chat)       \
    X(ollama_generate) X(ollama_embed) X(ollama_embeddings) X(ollama_pull) X(ollama_tags) X(ollama_show)    \
    X(ollama_ps) X(ollama_version) X(root) X(trace) X(trace_paths) X(tokenizer_info) X(health)              \
    X(metrics) X(machine) E(facts) E(drawing) E(report) E(settings) X(openapi)

#define X(name) extern const lm_route lm_route_##name;
LM_ROUTES(X, X)
#undef X

#endif
