/* wrap.h - break streamed text at words, for a terminal.
 *
 * A word is shown as it arrives. If it passes the edge, it is erased and begins the next line. Chinese,
 * Japanese and Korean characters, which take two columns, are separate words. */
#ifndef LM_CLI_WRAP_H
#define LM_CLI_WRAP_H

#include "lamina/buffer.h"

typedef struct lm_wrap {
    unsigned width;              /* maximum columns of a line; 0: text is not changed */
    unsigned column;             /* of the cursor */
    unsigned word_columns;
    lm_text  word;               /* the last word of the line, as far as it is shown */
} lm_wrap;

/* Append `text`, whole characters without control characters except newline and tab, to `out` with its
 * line breaks. */
void lm_wrap_add(lm_wrap *w, const char *text, size_t n, lm_text *out);

#endif
