/* own_messages.h - tool calls and results in the form of templates that do not know `tool_calls`. */
#ifndef LM_TEXT_OWN_MESSAGES_H
#define LM_TEXT_OWN_MESSAGES_H

#include <jansson.h>

#include "lamina/text.h"

/* How a template takes the calls of earlier turns and their results. */
typedef enum lm_own_messages {
    LM_OWN_NONE,                         /* as `tool_calls`, or not at all */
    LM_OWN_METADATA,                     /* GLM-4: the name is the metadata of a message with the arguments;
                                            results have the role "observation" */
    LM_OWN_LIST,                         /* Hammer: the content is a JSON list of calls */
} lm_own_messages;

lm_own_messages lm_own_messages_of(const char *source);

/* Replace the messages of the variables by those that the template knows. `json`: the text of `context`,
 * whose numbers stay exact. */
lm_status lm_own_messages_set(lm_own_messages own, const char *json, size_t size, json_t *context,
                              lm_error *e);

#endif
