/* openai.h - what the answers to OpenAI's /v1/chat/completions and /v1/completions have alike. */
#ifndef LM_SERVER_OPENAI_H
#define LM_SERVER_OPENAI_H

#include "server/ask/writer.h"

/* A document, or a piece of a stream. Takes `choices`. */
json_t *lm_openai_document(const lm_turn *t, const char *object, json_t *choices);

/* The end of an answer: `choices` (taken) as a document, in a stream none of them, with usage only where it is `wanted`. Takes `usage`. */
void    lm_openai_finish(lm_turn *t, const char *object, json_t *choices, bool wanted, json_t *usage);

/* "usage". */
json_t *lm_openai_usage(const lm_turn_usage *u);

/* Whether `stream_options` asks for usage. */
bool    lm_openai_wants_usage(const json_t *stream_options);

#endif
