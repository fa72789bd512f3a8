/* prose.h - sentences in columns. */
#ifndef LM_ANALYSIS_PROSE_H
#define LM_ANALYSIS_PROSE_H

#include "base/str.h"

/* Words in lines of at most `columns`, each line after `indent` spaces; the first line goes on at `at` columns (`lead`: what is
 * written there already, in columns). Ends with a newline. */
void lm_put_prose(lm_text *out, const char *text, unsigned lead, unsigned indent, unsigned columns);

/* Lines as they are, each after `indent` spaces, empty ones without. Ends with a newline. */
void lm_put_lines(lm_text *out, const char *text, unsigned indent);

#endif
