/* response_items.h - the items of an answer to POST /v1/responses in the order in which the model writes them: reasoning, messages, calls
 * of functions. While they are written, their events are sent to who streams. */
#ifndef LM_SERVER_RESPONSE_ITEMS_H
#define LM_SERVER_RESPONSE_ITEMS_H

#include "server/ask/turn.h"

typedef enum lm_item_kind { LM_ITEM_NONE, LM_ITEM_MESSAGE, LM_ITEM_REASONING, LM_ITEM_CALL } lm_item_kind;

typedef struct lm_response_items {
    json_t      *done;               /* items that are whole */
    int64_t      n_events;           /* that were sent */
    lm_item_kind kind;               /* of the item that is open */
    lm_text      text;               /* its text or arguments so far */
    char         id[64], call_id[80], name[132];
} lm_response_items;

/* Takes `o`, and sends it with its type and number, where the answer is a stream. */
void lm_response_event(lm_turn *t, lm_response_items *items, const char *type, json_t *o);

/* More text of a message or of reasoning: the item that is open, or a new one. */
void lm_response_item_text(lm_turn *t, lm_response_items *items, lm_item_kind kind, const char *text, size_t n);

/* A call begins, or more of its arguments comes. */
void lm_response_item_call(lm_turn *t, lm_response_items *items, const lm_answer_event *event);
void lm_response_item_arguments(lm_turn *t, lm_response_items *items, const char *text, size_t n);

/* The open item is whole, `status` "completed" or "incomplete". An answer without any item gets an empty message. */
void lm_response_item_close(lm_turn *t, lm_response_items *items, const char *status);
void lm_response_items_end(lm_turn *t, lm_response_items *items, const char *status);

void lm_response_items_free(lm_response_items *items);

#endif
