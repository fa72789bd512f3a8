/* explore.h - convert expressions with intersection and complement into rules without them.
 *
 * This works only for languages without recursive rules: patterns and string lengths. It constructs all
 * states (Brzozowski) and omits those from which no text can end. */
#ifndef LM_GRAMMAR_EXPLORE_H
#define LM_GRAMMAR_EXPLORE_H

#include "grammar/expression.h"

/* Marks for the beginning and the end of the text in expressions of patterns. They never occur in UTF-8. */
enum { LM_TEXT_BEGIN = 0xFE, LM_TEXT_END = 0xFF };

/* Return the same language as a rule, with one rule per state, or LM_NOTHING if it is empty. The result
 * contains no marks. */
lm_expr_id lm_explore(lm_terms *p, lm_expr_id n);

/* Return whether the language is empty. If it is too large to decide, the pool has failed. */
bool lm_explore_empty(lm_terms *p, lm_expr_id n);

#endif
