/* explore.h - expressions with intersection and complement, made into rules without.
 *
 * Only for languages without rules that recurse: patterns and lengths of strings. All states are made (Brzozowski), those that lead
 * nowhere left out. */
#ifndef LM_GRAMMAR_EXPLORE_H
#define LM_GRAMMAR_EXPLORE_H

#include "grammar/expression.h"

/* Marks in expressions of patterns: where the text begins and ends. They are no bytes of UTF-8. */
enum { LM_MARK_BEGIN = 0xFE, LM_MARK_END = 0xFF };

/* The same language as a rule with one rule for each state; LM_NOTHING when it is empty. Marks have done their work and are gone. */
lm_node lm_explore(lm_terms *p, lm_node n);

/* Is it empty? Too large to tell: the pool has failed. */
bool lm_explore_empty(lm_terms *p, lm_node n);

#endif
