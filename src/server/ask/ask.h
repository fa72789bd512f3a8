/* ask.h - the one way from a request to its answer, whatever the dialect. A dialect fills an lm_ask from its fields and names a writer;
 * what is checked, and in which order, is alike everywhere: how to choose tokens, the conversation or the prompts, whether they fit the
 * context and the queue, and only then the grammar, which can be long work. */
#ifndef LM_SERVER_ASK_H
#define LM_SERVER_ASK_H

#include "server/ask/dialogue.h"
#include "server/ask/turn.h"

/* A field that `sent` is the dialect's name of: errors name the one that was sent. */
typedef struct lm_field_alias { const char *field, *sent; } lm_field_alias;

typedef struct lm_ask {
    const lm_params *params;           /* the call's, or as long as lm_ask runs */
    const char *id_prefix;           /* "chatcmpl-" */
    int32_t     logprobs;            /* as in lm_sequence_options */
    bool        prompt_only;         /* nothing is to be written */
    lm_field_alias aliases[4];       /* up to the first without a field */
    /* Once the options are known to be right: the conversation or, where its messages are NULL, the prompts. Both are freed by lm_ask. */
    lm_status (*read)(lm_call *c, struct lm_ask *a, lm_error *e);
    lm_dialogue dialogue;
    lm_prompts  prompts;
    /* Into the writer's own, which is all zeros; may be NULL. */
    lm_status (*prepare)(lm_call *c, const struct lm_ask *a, const lm_prepared *parts, void *own, lm_error *e);
} lm_ask;

/* Begin the answer. LM_USAGE names the field. */
lm_status lm_ask_answer(lm_call *c, lm_ask *a, const lm_writer *w, lm_error *e);

/* Only count the tokens of the conversation that `read` reads. */
lm_status lm_ask_count(lm_call *c, lm_ask *a, json_int_t *n, lm_error *e);

/* `logprobs` and `top_logprobs` as OpenAI's chat has them. */
lm_status lm_ask_logprobs(lm_ask *a, bool on, uint32_t top, lm_error *e);

#endif
