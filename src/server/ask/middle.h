/* middle.h - prompts of models that fill in what is missing in the middle of a text: their vocabularies have tokens for what is before,
 * behind and between (Bavarian et al. 2022, arXiv 2207.14255; files of a repository: arXiv 2409.12186). */
#ifndef LM_SERVER_MIDDLE_H
#define LM_SERVER_MIDDLE_H

#include "server/models/service.h"

typedef struct lm_middle {
    const char *prefix, *suffix;     /* NULL: "" */
    const char *begun;               /* beginning of what is missing; NULL: "" */
    json_t     *extra;               /* [{filename, text}], other files; NULL: none */
} lm_middle;

/* LM_USAGE in `field`: `extra` has another form. */
lm_status lm_middle_check(const lm_middle *m, const char *field, lm_error *e);

/* Whether the model has such tokens. */
bool      lm_middle_supported(const lm_service *s);

/* Appended to `out`, as llama-server builds it. */
lm_status lm_middle_prompt(const lm_service *s, const lm_middle *m, lm_tokens *out, lm_error *e);

#endif
