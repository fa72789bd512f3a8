/* pattern.h - regular expressions: what Perl's and ECMAScript's have in common. */
#ifndef LM_GRAMMAR_PATTERN_H
#define LM_GRAMMAR_PATTERN_H

#include "grammar/expression.h"

/* The texts (UTF-8) that match: all of the text does, or some part of it (`search`). Errors carry the offset. What is sound but no
 * regular language, or means different things to different engines, is LM_UNSUPPORTED. */
lm_status lm_pattern(lm_terms *p, lm_view text, bool search, lm_node *out, lm_error *e);

#endif
