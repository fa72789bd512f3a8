/* generate.h - lm_generate with functions that are called before and after each step. */
#ifndef LM_RUNTIME_GENERATE_H
#define LM_RUNTIME_GENERATE_H

#include "lamina/generate.h"

typedef struct lm_stepped {
    uint32_t (*rows)(void *arg, const lm_sequence *s);   /* return the maximum of the next step's prompt
                                                            rows */
    void     (*ran)(void *arg, const lm_sequence *s);
    void      *arg;
} lm_stepped;

/* lm_generate; `stepped` may be NULL. */
lm_status lm_generate_stepped(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                              const lm_generate_options *o, const lm_stepped *stepped, lm_generation *out,
                              lm_error *e);

#endif
