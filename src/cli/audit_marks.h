/* audit_marks.h - a document with the verdicts of `lamina audit` in its text. */
#ifndef LM_CLI_AUDIT_MARKS_H
#define LM_CLI_AUDIT_MARKS_H

#include <stddef.h>

#include "lamina/audit.h"
#include "cli/output.h"

/* The verdict on `size` bytes of a document from `at` on; truth: the right value, of a wrong one. Not LM_CLAIM_NOT_CHECKABLE. */
typedef struct lm_mark { size_t at, size; lm_claim verdict; const char *truth; } lm_mark;

/* Adds the document to `out`, each marked value followed by its verdict; in HTML with its own class. Sorts `marks`. */
void lm_mark_document(lm_text *out, const char *text, size_t size, lm_mark *marks, size_t n, bool html);

#endif
