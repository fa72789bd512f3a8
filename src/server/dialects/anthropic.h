/* anthropic.h - requests and responses of Anthropic's POST /v1/messages, as a document or as events. */
#ifndef LM_SERVER_ANTHROPIC_H
#define LM_SERVER_ANTHROPIC_H

#include "server/ask/ask.h"

/* Convert a system text (NULL: none) and messages with blocks to messages for lm_dialogue. System messages, wherever they are, become one
 * message at the beginning; tool results become separate messages. `warnings` lists what is skipped. LM_USAGE names the block that cannot
 * be read. *out is the caller's. */
lm_status lm_anthropic_messages(const json_t *system, const json_t *messages, json_t *warnings, json_t **out, lm_error *e);

extern const lm_writer lm_anthropic_writer;

#endif
