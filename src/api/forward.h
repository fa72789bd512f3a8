/* forward.h - what pages of forward passes share. */
#ifndef LM_API_FORWARD_H
#define LM_API_FORWARD_H

#include "runtime/engine/model.h"

/* What an operation computes, in the letters of docs/study/glossary.md. */
const char *lm_forward_formula(const lm_node *n);

/* The path that finds this operation's value and no other's; NULL: there is none. */
const char *lm_forward_path(const lm_program *p, uint32_t i);

enum { LM_LIKELIEST = 5 };
typedef struct lm_likely { lm_token id; double p; } lm_likely;

/* The likeliest tokens by logits [n], best first; id -1 where there are fewer. */
void lm_find_likeliest(const float *logits, uint32_t n, lm_likely best[LM_LIKELIEST]);

#endif
