/* forward.h - declarations shared by the pages about forward passes. */
#ifndef LM_API_FORWARD_H
#define LM_API_FORWARD_H

#include <jansson.h>

#include "lamina/study/explain.h"
#include "runtime/model/model.h"

/* Return the formula of an operation, in the symbols of docs/study/glossary.md and with English words. A page
 * translates it with _(). */
const char *lm_forward_formula(const lm_node *n);

/* Return the path that refers to this operation's value only; NULL: there is none. */
const char *lm_forward_path(const lm_program *p, uint32_t i);

/* Write a document as lm_explain does, indented by two. Takes it. NULL, or `failed`: out of memory. */
void lm_forward_print(json_t *document, bool failed, lm_text *out);

/* Fail unless a forward pass has this form. */
lm_status lm_forward_form(lm_form form, lm_error *e);

enum { LM_LIKELIEST = 5 };
typedef struct lm_likely { lm_token id; double p; } lm_likely;

/* Find the most likely tokens from logits [n], best first; the id is -1 if there are fewer. */
void lm_find_likeliest(const float *logits, uint32_t n, lm_likely best[LM_LIKELIEST]);

#endif
