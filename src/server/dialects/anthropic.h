/* anthropic.h - requests and responses of Anthropic's POST /v1/messages, as a document or as events. */
#ifndef LM_SERVER_ANTHROPIC_H
#define LM_SERVER_ANTHROPIC_H

#include "server/ask/turn.h"

typedef enum lm_message_block { LM_MESSAGE_NONE, LM_MESSAGE_THINKING, LM_MESSAGE_TEXT,
                                LM_MESSAGE_CALL } lm_message_block;

typedef struct lm_message_turn {
    lm_turn       turn;
    json_t       *system, *stops, *thinking, *output_config, *output_format;
    /* Of the writer. */
    lm_message_block block;             /* the open one */
    int           block_index, n_blocks;     /* of the open block; number of blocks opened so far */
} lm_message_turn;

/* Convert a system text (NULL: none) and messages with blocks to messages for lm_dialogue_prompt. System
 * messages, wherever they are, become one message at the beginning; tool results become separate messages.
 * `warnings` lists what is skipped. LM_USAGE names the block that cannot be read. *out is the caller's. */
lm_status lm_anthropic_messages(const json_t *system, const json_t *messages, json_t *warnings, json_t **out,
                                lm_error *e);

extern const lm_writer lm_anthropic_writer;          /* of an lm_message_turn */

#endif
