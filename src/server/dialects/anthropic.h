/* anthropic.h - requests and responses of Anthropic's POST /v1/messages, as a document or as events. */
#ifndef LM_SERVER_ANTHROPIC_H
#define LM_SERVER_ANTHROPIC_H

#include "server/ask/ask.h"

/* A system text (NULL: none) and messages with blocks as messages for lm_dialogue: what system messages say, wherever they stand, is one
 * message at the beginning; results of tools are messages of their own. What is passed over is named in `warnings`. LM_USAGE names the
 * block that cannot be read. *out is the caller's. */
lm_status lm_anthropic_messages(const json_t *system, const json_t *messages, json_t *warnings, json_t **out, lm_error *e);

extern const lm_writer lm_anthropic_writer;

#endif
