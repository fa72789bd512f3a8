/* lines.h - what a person types, with editing and history on a terminal, or what a pipe holds, line by line. */
#ifndef LM_CLI_LINES_H
#define LM_CLI_LINES_H

#include "lamina/buffer.h"

typedef struct lm_lines lm_lines;

typedef enum lm_line { LM_LINE, LM_LINE_END, LM_LINE_ABANDONED, LM_LINE_FAILED } lm_line;

/* `history`: a file that past lines come from and go to; NULL: none. */
lm_status lm_lines_open(const char *history, lm_lines **out, lm_error *e);
void      lm_lines_close(lm_lines *l);
bool      lm_lines_terminal(const lm_lines *l);

/* The next line into `out` (cleared first), without its newline. A line that ends in a backslash goes on in the next; one that begins
 * with three double quotes goes on until one ends with them. What is pasted into the editor is part of one line, its newlines too.
 * LM_LINE_ABANDONED: Ctrl-C. LM_LINE_END: Ctrl-D, or the end of the pipe. LM_LINE_FAILED: `e` tells; nothing comes after it. */
lm_line lm_lines_next(lm_lines *l, lm_text *out, lm_error *e);

#endif
