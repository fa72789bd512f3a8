/* ollama.h - requests and responses of ollama's API, as a document or as lines. */
#ifndef LM_SERVER_OLLAMA_H
#define LM_SERVER_OLLAMA_H

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
} lm_ollama_turn;

/* Return the time `seconds` (at most 1e9) from now in ollama's format. */
json_t *lm_ollama_moment(double seconds);

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
