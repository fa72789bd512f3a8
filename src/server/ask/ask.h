/* ask.h - from a request to its answer, in every dialect. A dialect fills an lm_ask from its fields and names a writer. The checks and
 * their order are the same for all dialects: sampling parameters, the conversation or the prompts, whether they fit the context and the
 * queue, and last the grammar, because compiling it can take long. */
#ifndef LM_SERVER_ASK_H
#define LM_SERVER_ASK_H

#include "server/ask/dialogue.h"
#include "server/ask/turn.h"

/* The dialect calls `field` by the name `sent`, which errors use. */
typedef struct lm_field_alias { const char *field, *sent; } lm_field_alias;

typedef struct lm_ask {
    const lm_params *params;           /* the call's, or valid until lm_ask_answer returns */
    const char *id_prefix;           /* "chatcmpl-" */
    int32_t     logprobs;            /* as in lm_sequence_options */
    bool        prompt_only;         /* process the prompt, generate nothing */
    lm_field_alias aliases[4];       /* up to the first whose field is NULL */
    /* Fill `dialogue` or, if its messages stay NULL, `prompts`; lm_ask_answer calls it once the parameters are valid. Both are freed by
     * lm_ask_answer and lm_ask_count. */
    lm_status (*read)(lm_call *c, struct lm_ask *a, lm_error *e);
    lm_dialogue dialogue;
    lm_prompts  prompts;
    /* Fill `own`, the writer's memory, which is all zeros; may be NULL. */
    lm_status (*prepare)(lm_call *c, const struct lm_ask *a, const lm_prepared *parts, void *own, lm_error *e);
} lm_ask;

/* Begin the answer. LM_USAGE names the field. */
lm_status lm_ask_answer(lm_call *c, lm_ask *a, const lm_writer *w, lm_error *e);

/* Only count the tokens of the conversation that `read` reads. */
lm_status lm_ask_count(lm_call *c, lm_ask *a, json_int_t *n, lm_error *e);

/* Set a->logprobs from `logprobs` and `top_logprobs` of OpenAI's chat. LM_USAGE: `top` without `on`. */
lm_status lm_ask_logprobs(lm_ask *a, bool on, uint32_t top, lm_error *e);

#endif
