/* pattern.h - regular expressions: the common subset of Perl and ECMAScript. */
#ifndef LM_GRAMMAR_PATTERN_H
#define LM_GRAMMAR_PATTERN_H

#include "grammar/expression.h"

/* Return the language of the UTF-8 texts that match, as a whole or, with `search`, in some part. Errors
 * contain the offset. A valid pattern that is not a regular language, or that engines interpret differently,
 * returns LM_UNSUPPORTED. */
lm_status lm_pattern(lm_terms *p, lm_view text, bool search, lm_expr_id *out, lm_error *e);

#endif
