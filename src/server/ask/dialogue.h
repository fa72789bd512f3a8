/* dialogue.h - a conversation in any dialect: from messages, tools and reasoning settings to a prompt, and to the tools by which the
 * answer is constrained and parsed. */
#ifndef LM_SERVER_DIALOGUE_H
#define LM_SERVER_DIALOGUE_H

#include "server/ask/tools.h"
#include "server/ask/call.h"

typedef struct lm_dialogue {
    json_t     *messages;            /* in the form of OpenAI's chat; lm_dialogue_free frees these, tools and choice */
    json_t     *kwargs;              /* further variables of the chat template; NULL: none */
    json_t     *tools, *choice;      /* as lm_tools_read takes them */
    bool        single;              /* at most one tool call */
    bool        begin;               /* the prompt ends with the header of the answer (add_generation_prompt) */
    bool        goes_on;             /* continue the last message if it is the assistant's and has no tool calls */
    lm_thinking thinking;
    const char *effort;              /* none, minimal, low, medium, high, xhigh, max; NULL: not given */
    int64_t     budget;              /* maximum tokens of reasoning; -1: no limit */
    const char *field;               /* the field for reasoning, for errors and warnings */
    bool        merged;              /* return reasoning as content */
    bool        unread;              /* return tool calls as content */
    bool        shown;               /* the prompt is not answered: tools that the template leaves out cause a warning, not an error */
} lm_dialogue;

/* Append the conversation to `prompt` as tokens and to `rendered` as text. LM_USAGE names the field, also of what the chat template cannot
 * express. *tools is the caller's, also on failure; NULL: none was made. `tools` may be NULL. */
lm_status lm_dialogue_prompt(lm_call *c, const lm_dialogue *d, lm_tokens *prompt, lm_text *rendered, lm_tools **tools, lm_error *e);
void      lm_dialogue_free(lm_dialogue *d);

/* Return a tool call of an earlier message. `arguments` may be anything, or NULL: lm_dialogue_prompt reads them. */
json_t *lm_dialogue_call(const char *id, const char *name, json_t *arguments);

#endif
