/* mathml.h - formulas for pages: convert the LaTeX of cards and derivations to MathML (MathML Core).
 *
 * A small subset of LaTeX: letters, numbers, scripts, \frac \sqrt \text \mathrm \mathbb \hat \boxed, \left
 * \right, the environments pmatrix, aligned and cases, and the symbols of the table in mathml.c. Anything
 * else is an error that names it: formulas are part of the source code. */
#ifndef LM_ANALYSIS_MATHML_H
#define LM_ANALYSIS_MATHML_H

#include "base/error.h"
#include "base/str.h"

/* Append `<math>…</math>`; `block`: displayed. LM_FAILED names what is not supported and where; then nothing
 * is appended. */
lm_status lm_mathml(const char *latex, bool block, lm_text *out, lm_error *e);

/* The same without the enclosing element, for a part of a larger formula. */
lm_status lm_mathml_row(const char *latex, lm_text *out, lm_error *e);

#endif
