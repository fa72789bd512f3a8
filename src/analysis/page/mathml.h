/* mathml.h - formulas for pages: LaTeX, as cards and derivations write it, as MathML (MathML Core).
 *
 * A small part of LaTeX: letters, numbers, scripts, \frac \sqrt \text \mathrm \mathbb \hat \boxed, \left \right, the
 * environments pmatrix, aligned and cases, and the signs of the table in mathml.c. Anything else is an error that names it:
 * formulas are ours. */
#ifndef LM_ANALYSIS_MATHML_H
#define LM_ANALYSIS_MATHML_H

#include "base/error.h"
#include "base/str.h"

/* `<math>…</math>`, appended; `block`: displayed. LM_FAILED names what is not understood and where; nothing is appended then. */
lm_status lm_mathml(const char *latex, bool block, lm_text *out, lm_error *e);

/* The same without the element around it: a part of a larger formula. */
lm_status lm_mathml_row(const char *latex, lm_text *out, lm_error *e);

#endif
