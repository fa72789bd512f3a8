/* ollama.h - requests and responses of ollama's API, as a document or as lines. */
#ifndef LM_SERVER_OLLAMA_H
#define LM_SERVER_OLLAMA_H

#include <time.h>

#include "server/ask/turn.h"

/* The fields of all routes, and the turn of /api/chat and /api/generate. */
typedef struct lm_ollama_turn {
    lm_turn     turn;
    const char *prompt, *system, *suffix;
    json_t     *options, *input, *think, *keep_alive;
    bool        raw;
    uint32_t    dimensions;
    lm_constraints constraints;      /* outside of `options` */
    bool        chat;                /* the answer is one to /api/chat */
    bool        verbose;             /* of /api/show */
} lm_ollama_turn;

/* The fields that all requests have. */
#define LM_OLLAMA_COMMON                                                                                  \
    { "model", LM_FIELD_STRING, offsetof(lm_turn, body.model), 0, 0, NULL, false,                         \
      "a name of /api/tags; any name if the server has one model" },                                      \
    { "options", LM_FIELD_OBJECT, offsetof(lm_ollama_turn, options), 0, 0, NULL, false,                   \
      "num_predict, temperature, seed, stop ... as in /completion" },                                     \
    { "keep_alive", LM_FIELD_ANY, offsetof(lm_ollama_turn, keep_alive), 0, 0, NULL, false,                \
      "time until the idle model is unloaded: seconds, \"5m\", -1: never, 0: after this request" }

/* The defaults of a turn: answers are streamed. */
void lm_ollama_defaults(const lm_service *s, void *values);

/* Return the time `seconds` (at most 1e9) from now in ollama's format. */
json_t *lm_ollama_moment(double seconds);

/* Return a time since the epoch in the same form. */
json_t *lm_ollama_date(const struct timespec *t);

/* Convert messages with `thinking`, `tool_calls` and `tool_name` to those of lm_dialogue_prompt; *out is the
 * caller's. LM_USAGE names the message. */
lm_status lm_ollama_messages(const json_t *messages, json_t **out, lm_error *e);

/* Read `think`: true, false, "low", "medium" or "high"; NULL: not given. LM_USAGE: another value, or
 * reasoning is requested but the model does not support it. */
lm_status lm_ollama_think(const lm_service *s, const json_t *think, lm_turn *t, lm_error *e);

/* Whether its output can contain reasoning. */
bool lm_ollama_thinks(const lm_service *s);

extern const lm_writer lm_ollama_writer;             /* of an lm_ollama_turn */

#endif
