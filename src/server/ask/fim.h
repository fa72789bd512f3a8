/* fim.h - fill-in-the-middle prompts, for models whose vocabularies have tokens for the prefix, the suffix
 * and the middle (Bavarian et al. 2022, arXiv 2207.14255; files of a repository: arXiv 2409.12186). */
#ifndef LM_SERVER_FIM_H
#define LM_SERVER_FIM_H

#include "server/models/service.h"

typedef struct lm_fim {
    const char *prefix, *suffix;     /* NULL: "" */
    const char *begun;               /* beginning of the middle; NULL: "" */
    json_t     *extra;               /* [{filename, text}], other files; NULL: none */
} lm_fim;

/* Check the form of `extra`. LM_USAGE names `field`. */
lm_status lm_fim_check(const lm_fim *m, const char *field, lm_error *e);

/* Whether the model has the three tokens. */
bool      lm_fim_supported(const lm_service *s);

/* Append the prompt to `out`, in llama-server's form. */
lm_status lm_fim_prompt(const lm_service *s, const lm_fim *m, lm_tokens *out, lm_error *e);

#endif
