/* audit_marks.h - insert the verdicts of `lamina audit` into the text of a document. */
#ifndef LM_CLI_AUDIT_MARKS_H
#define LM_CLI_AUDIT_MARKS_H

#include <stddef.h>

#include "lamina/audit.h"
#include "cli/base/output.h"

/* The verdict on the bytes [at, at + size) of a document. `truth`: the correct value, for LM_CLAIM_WRONG. The
 * verdict is not LM_CLAIM_NOT_CHECKABLE. */
typedef struct lm_claim_mark { size_t at, size; lm_claim verdict; const char *truth; } lm_claim_mark;

/* Append the document to `out`, each marked value followed by its verdict. In HTML the value has the class of
 * its verdict. Sorts `marks`. */
void lm_mark_document(lm_text *out, const char *text, size_t size, lm_claim_mark *marks, size_t n, bool html);

#endif
