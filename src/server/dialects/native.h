/* native.h - what answers to llama.cpp's own routes are made of. */
#ifndef LM_SERVER_NATIVE_H
#define LM_SERVER_NATIVE_H

#include "server/ask/ask.h"

/* What a turn of lm_native_writer has as its own. */
typedef struct lm_native_own {
    bool    probs, tokens;           /* are returned */
    bool    sampled;                 /* as probabilities, not logarithms */
    bool    list;                    /* several prompts: the answer is an array */
    json_t *settings;                /* "generation_settings" */
    json_t *prompts;                 /* texts of the prompts */
    json_t *fields;                  /* paths of the members to return; NULL: all */
} lm_native_own;

extern const lm_writer lm_native_writer;

/* llama.cpp's "generation_settings" of a request, or of one that says nothing (`parts` NULL). */
json_t *lm_native_settings(const lm_service *s, const lm_params *a, const lm_prepared *parts, int32_t n_probs);

#endif
