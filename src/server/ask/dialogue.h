/* dialogue.h - a conversation, whatever the dialect: messages, tools and how the model is to think become a prompt, what the answer must
 * fit, and how it is read. */
#ifndef LM_SERVER_DIALOGUE_H
#define LM_SERVER_DIALOGUE_H

#include "server/ask/tools.h"
#include "server/ask/call.h"

typedef struct lm_dialogue {
    json_t     *messages;            /* as OpenAI's chat has them; lm_dialogue_free frees these, tools and choice */
    json_t     *kwargs;              /* further variables of the chat template; NULL: none */
    json_t     *tools, *choice;      /* as lm_tools_read takes them */
    bool        single;              /* one call, no more */
    bool        begin;               /* the prompt begins the answer */
    bool        goes_on;             /* the last message is the beginning of the answer, if it is the assistant's and calls nothing */
    lm_thinking thinking;
    const char *effort;              /* none, minimal, low, medium, high, xhigh, max; NULL: not given */
    int64_t     budget;              /* most tokens of reasoning; -1: any number */
    const char *field;               /* the field that speaks of reasoning, for errors and warnings */
    bool        merged;              /* reasoning is content */
    bool        unread;              /* calls are content */
    bool        shown;               /* the prompt is only looked at: tools that the template leaves out are a warning */
} lm_dialogue;

/* Append it to `prompt`, and to `rendered` as text. LM_USAGE names the field; what the chat template cannot express is one. *tools (NULL:
 * not wanted) is the caller's, also on failure; NULL: none was made. */
lm_status lm_dialogue_prompt(lm_call *c, const lm_dialogue *d, lm_tokens *prompt, lm_text *rendered, lm_tools **tools, lm_error *e);
void      lm_dialogue_free(lm_dialogue *d);

/* A call of an earlier message. Takes `arguments`, an object; others become an empty one. */
json_t *lm_dialogue_call(const char *id, const char *name, json_t *arguments);

#endif
