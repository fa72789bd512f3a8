/* ollama.h - requests and responses of ollama's conversations, as a document or as lines. */
#ifndef LM_SERVER_OLLAMA_H
#define LM_SERVER_OLLAMA_H

#include "server/ask/ask.h"

/* Now and so many seconds, as ollama writes it. */
json_t *lm_ollama_moment(double seconds);

/* Messages with `thinking`, `tool_calls` and `tool_name` as those of lm_dialogue; *out is the caller's. LM_USAGE names the message. */
lm_status lm_ollama_messages(const json_t *messages, json_t **out, lm_error *e);

/* `think`: true, false, "low", "medium" or "high"; NULL: not given. LM_USAGE where the model knows no reasoning. */
lm_status lm_ollama_think(const lm_service *s, const json_t *think, lm_dialogue *d, lm_error *e);

/* What its answers may hold beside text. */
bool lm_ollama_thinks(const lm_service *s);

/* Make the own of a turn of lm_ollama_writer that of /api/chat; else it is that of /api/generate. */
void lm_ollama_prepare(void *own);

extern const lm_writer lm_ollama_writer;

#endif
