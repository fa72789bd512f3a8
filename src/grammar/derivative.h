/* derivative.h - what is left of a language after a byte, or after a token that is named. */
#ifndef LM_GRAMMAR_DERIVATIVE_H
#define LM_GRAMMAR_DERIVATIVE_H

#include "grammar/expression.h"

/* Known ones are looked up. The pool has to be settled where there are rules in it. LM_NOTHING where no text goes on so. */
lm_node lm_derivative(lm_terms *p, lm_node n, uint8_t byte);

/* By a token: only items that stand for tokens take it. `special`: it is a control token. */
lm_node lm_derivative_by_token(lm_terms *p, lm_node n, lm_token id, bool special);

/* Call `found` for every token set that the next token may come from. */
void lm_first_tokens(lm_terms *p, lm_node n, void (*found)(void *arg, const lm_token_set *set), void *arg);

bool lm_token_in(const lm_terms *p, const lm_token_set *s, lm_token id, bool special);

/* Bytes that no expression of the pool tells apart: class_of[byte]; returns how many classes there are. */
uint32_t lm_byte_classes(const lm_terms *p, uint8_t class_of[256]);

#endif
