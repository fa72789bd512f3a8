/* derivative.h - the language that remains after a byte or after a token by its id. */
#ifndef LM_GRAMMAR_DERIVATIVE_H
#define LM_GRAMMAR_DERIVATIVE_H

#include "grammar/expression.h"

/* Return the derivative by a byte, from a cache if known; LM_NOTHING if no text continues so. A pool with
 * rules must be settled. */
lm_expr_id lm_derivative(lm_terms *p, lm_expr_id n, uint8_t byte);

/* Return the derivative by a token: only token items match it. `special`: it is a control token. */
lm_expr_id lm_derivative_by_token(lm_terms *p, lm_expr_id n, lm_token id, bool special);

/* Call `found` for every token set that can match the next token. */
void lm_first_tokens(lm_terms *p, lm_expr_id n, void (*found)(void *arg, const lm_token_set *set), void *arg);

bool lm_token_in(const lm_terms *p, const lm_token_set *s, lm_token id, bool special);

/* Compute the classes of bytes that no expression of the pool distinguishes: class_of[byte]. Return the
 * number of classes. */
uint32_t lm_byte_classes(const lm_terms *p, uint8_t class_of[256]);

#endif
