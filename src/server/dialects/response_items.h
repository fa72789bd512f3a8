/* response_items.h - the items of a response to POST /v1/responses in the order in which the model generates
 * them: reasoning, messages, function calls. In a stream, their events are sent during generation. */
#ifndef LM_SERVER_RESPONSE_ITEMS_H
#define LM_SERVER_RESPONSE_ITEMS_H

#include "server/ask/turn.h"

typedef enum lm_item_kind { LM_ITEM_NONE, LM_ITEM_MESSAGE, LM_ITEM_REASONING, LM_ITEM_CALL } lm_item_kind;

typedef struct lm_response_items {
    json_t      *done;               /* completed items */
    int64_t      n_events;           /* sent so far */
    lm_item_kind kind;               /* of the open item */
    lm_text      text;               /* its text or arguments so far */
    char         id[64], call_id[80], name[132];
    json_t      *called;             /* by the name that the model sees: {type, name, namespace} of a tool */
} lm_response_items;

/* Send `o` with its type and number if the response is a stream. Takes ownership of `o`. */
void lm_response_event(lm_turn *t, lm_response_items *items, const char *type, json_t *o);

/* Add text of a message or of reasoning to the open item or, if that is of another kind, to a new one. */
void lm_response_item_text(lm_turn *t, lm_response_items *items, lm_item_kind kind, const char *text,
                           size_t n);

/* Begin a function call; add to its arguments. */
void lm_response_item_call(lm_turn *t, lm_response_items *items, const lm_answer_event *event);
void lm_response_item_arguments(lm_turn *t, lm_response_items *items, const char *text, size_t n);

/* Close the open item, with `status` "completed" or "incomplete". _end also adds an empty message to a
 * response without items. */
void lm_response_item_close(lm_turn *t, lm_response_items *items, const char *status);
void lm_response_items_end(lm_turn *t, lm_response_items *items, const char *status);

void lm_response_items_free(lm_response_items *items);

#endif
