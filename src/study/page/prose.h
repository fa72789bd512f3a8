/* prose.h - sentences wrapped to columns. */
#ifndef LM_ANALYSIS_PROSE_H
#define LM_ANALYSIS_PROSE_H

#include "base/str.h"

/* Append words in lines of at most `columns`. The first line continues one that already has `lead` columns;
 * the others begin with `indent` spaces. Ends with a newline. */
void lm_put_prose(lm_text *out, const char *text, unsigned lead, unsigned indent, unsigned columns);

/* Append lines unchanged, each after `indent` spaces except empty ones. Ends with a newline. */
void lm_put_lines(lm_text *out, const char *text, unsigned indent);

#endif
