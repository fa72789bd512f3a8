/* request_limits.h - the limits of a request: one table, from which the checks, the lists in /openapi.json
 * and docs/server/api.md, and a test that exceeds each limit by one are derived. All limits are counts, none
 * is a time: the same request always has the same result. */
#ifndef LM_SERVER_REQUEST_LIMITS_H
#define LM_SERVER_REQUEST_LIMITS_H

#include <jansson.h>
#include <stdint.h>

#include "lamina/error.h"

/* name, field that an error names, what is counted, maximum, HTTP status */
#define LM_LIMITS(X)                                                                                \
    X(BODY,        "body",                  "bytes", 8 << 20, 413)                                  \
    X(DEPTH,       "body",                  "nested levels of arrays and objects", 64, 400)         \
    X(MESSAGES,    "messages",              "messages or input items", 65536, 400)                  \
    X(CALLS,       "messages",              "tool calls in one message", 1024, 400)                 \
    X(NUMBERS,     "messages",              "numbers outside strings", 65536, 400)                  \
    X(PROMPTS,     "prompt",                "prompts", 64, 400)                                     \
    X(TEXTS,       "n",                     "outputs per prompt", 8, 400)                           \
    X(INPUTS,      "input",                 "inputs", 2048, 400)                                    \
    X(DOCUMENTS,   "documents",             "documents", 2048, 400)                                 \
    X(RANKED,      "documents",             "tokens in all prompts", 4 << 20, 400)                  \
    X(STOPS,       "stop",                  "strings", 256, 400)                                    \
    X(STOP_BYTES,  "stop",                  "bytes in all strings", 16384, 400)                     \
    X(STOP_IDS,    "stop_token_ids",        "token ids", 256, 400)                                  \
    X(BREAKERS,    "dry_sequence_breakers", "strings", 64, 400)                                     \
    X(BIASES,      "logit_bias",            "tokens", 4096, 400)                                    \
    X(SAMPLERS,    "samplers",              "samplers", 14, 400)                                    \
    X(PRESERVED,   "preserved_tokens",      "strings", 256, 400)                                    \
    X(TOOLS,       "tools",                 "tools", 256, 400)                                      \
    X(TOOL_NAME,   "tools",                 "bytes in a tool name", 128, 400)                       \
    X(CHOICES,     "tool_choice",           "allowed tools", 256, 400)                              \
    X(VARIABLES,   "chat_template_kwargs",  "variables", 64, 400)                                   \
    X(TRIGGERS,    "grammar_triggers",      "triggers", 64, 400)                                    \
    X(PATHS,       "response_fields",       "paths", 64, 400)                                       \
    X(PREVIOUS,    "previous_response_id",  "earlier responses", 1000, 400)                         \
    X(ROWS,        "positions",             "positions of a trace", 512, 400)                       \
    X(CHANGES,     "intervene",             "interventions", 64, 400)

typedef enum lm_limit_id {
#define X(name, field, what, max, status) LM_LIMIT_ID_##name,
    LM_LIMITS(X)
#undef X
} lm_limit_id;

/* The maxima, as constants. */
enum {
#define X(name, field, what, max, status) LM_LIMIT_##name = max,
    LM_LIMITS(X)
#undef X
};

/* Check that `n` is at most the limit. LM_USAGE names the field and both numbers. */
lm_status lm_limit_check(lm_limit_id id, uint64_t n, lm_error *e);

/* Return [{field, counts, most, status}], including the limits of grammars, which the library checks. NULL:
 * out of memory. */
json_t   *lm_limits_json(void);

#endif
