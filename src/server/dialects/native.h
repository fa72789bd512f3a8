/* native.h - responses of llama.cpp's own routes. */
#ifndef LM_SERVER_NATIVE_H
#define LM_SERVER_NATIVE_H

#include "server/ask/ask.h"

/* The `own` of a turn of lm_native_writer. */
typedef struct lm_native_own {
    bool    probs, tokens;           /* whether they are returned */
    bool    sampled;                 /* `probs` are probabilities after sampling, not logarithms */
    bool    list;                    /* several outputs: the response is an array */
    json_t *settings;                /* "generation_settings" */
    json_t *prompts;                 /* texts of the prompts */
    json_t *fields;                  /* paths of the members to return; NULL: all */
} lm_native_own;

extern const lm_writer lm_native_writer;

/* Return llama.cpp's "generation_settings" of a request; `parts` NULL: of one without prepared parts, for the defaults. */
json_t *lm_native_settings(const lm_service *s, const lm_params *a, const lm_prepared *parts, int32_t n_probs);

#endif
