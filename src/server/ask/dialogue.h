/* dialogue.h - the conversation of a turn: from its messages, tools and settings of reasoning to a prompt,
 * and to the tools by which the answer is constrained and parsed. A worker calls these. */
#ifndef LM_SERVER_DIALOGUE_H
#define LM_SERVER_DIALOGUE_H

#include "server/ask/turn.h"

/* Append the conversation to `prompt` as tokens and to `rendered` as text, and set t->tools. LM_USAGE names
 * the field, also of what the chat template cannot express. */
lm_status lm_dialogue_prompt(lm_call *c, lm_turn *t, lm_tokens *prompt, lm_text *rendered, lm_error *e);

/* Shorten the turn's only prompt, of a conversation or not, if it leaves no room for an answer, as ollama
 * does: the oldest messages after the system message are left out, then tokens behind the first `keep_first`.
 * The rest of the context is for the answer: max_tokens, at most half of the context, which is also what an
 * answer without a limit gets. `rendered` is the text of a conversation, whose messages are searched by
 * halving, so that it is rendered a few times, however long it is. Adds a warning. */
lm_status lm_dialogue_truncate(lm_call *c, lm_turn *t, lm_text *rendered, lm_error *e);

/* Return a tool call of an earlier message. `arguments` may be anything, or NULL: lm_dialogue_prompt reads
 * them. */
json_t *lm_dialogue_call(const char *id, const char *name, json_t *arguments);

#endif
