/* native.h - requests and responses of llama.cpp's own routes. */
#ifndef LM_SERVER_NATIVE_H
#define LM_SERVER_NATIVE_H

#include "server/ask/turn.h"

typedef struct lm_native_turn {
    lm_turn     turn;
    const char *prefix, *suffix, *middle;        /* of /infill */
    json_t     *extra;
    json_t     *fields;              /* paths of the members to return; NULL: all */
    uint32_t    n_probs;
    bool        return_tokens;
    /* Of the writer. */
    json_t     *settings;            /* "generation_settings" */
    json_t     *prompts;             /* texts of the prompts */
    json_t     *kept_fields;         /* `fields`, which outlives the body */
} lm_native_turn;

extern const lm_writer lm_native_writer;             /* of an lm_native_turn */

/* Return llama.cpp's "generation_settings" of a prepared turn, or of the defaults. */
json_t *lm_native_settings(const lm_service *s, const lm_turn *t, uint32_t n_probs);

/* Return the text of a special token; JSON's null: the model has none (-1). */
json_t *lm_special_json(const lm_service *s, lm_token id);

#endif
