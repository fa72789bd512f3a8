/* columns.h - text in columns, whose widths are those of lm_text_columns. */
#ifndef LM_BASE_COLUMNS_H
#define LM_BASE_COLUMNS_H

#include "base/str.h"

/* Append `text` in at least `width` columns, aligned left or right; append a piece n times. */
void lm_put(lm_text *out, const char *text, unsigned width);
void lm_put_right(lm_text *out, const char *text, unsigned width);
void lm_put_rule(lm_text *out, const char *piece, unsigned n);

#endif
