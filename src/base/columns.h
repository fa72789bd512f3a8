/* columns.h - text in columns; how wide it is says lm_text_columns. */
#ifndef LM_BASE_COLUMNS_H
#define LM_BASE_COLUMNS_H

#include "base/str.h"

/* `text` in at least `width` columns, at the left or at the right of them; a piece n times. */
void lm_put(lm_text *out, const char *text, unsigned width);
void lm_put_right(lm_text *out, const char *text, unsigned width);
void lm_put_rule(lm_text *out, const char *piece, unsigned n);

#endif
