/* lines.h - read lines from a terminal, with editing and history, or from a pipe. */
#ifndef LM_CLI_LINES_H
#define LM_CLI_LINES_H

#include "lamina/buffer.h"

typedef struct lm_lines lm_lines;

typedef enum lm_line { LM_LINE, LM_LINE_END, LM_LINE_ABANDONED, LM_LINE_FAILED } lm_line;

/* `history`: file from which past lines are loaded and to which they are saved on close; NULL: none. */
lm_status lm_lines_open(const char *history, lm_lines **out, lm_error *e);
void      lm_lines_close(lm_lines *l);
bool      lm_lines_terminal(const lm_lines *l);
bool      lm_lines_empty(const lm_lines *l);     /* nothing had been typed when the line was abandoned */

/* Read the next line into `out` (cleared first), without its newline. A line that ends with a backslash
 * continues on the next one; a line that begins with three double quotes continues until a line ends with
 * them. Text pasted into the editor is part of one line, including its newlines. LM_LINE_ABANDONED: Ctrl-C.
 * LM_LINE_END: Ctrl-D, or the end of the pipe. LM_LINE_FAILED: `e` has the reason; stop reading. */
lm_line lm_lines_next(lm_lines *l, lm_text *out, lm_error *e);

#endif
