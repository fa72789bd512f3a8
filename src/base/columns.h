/* columns.h - how wide a text is on a terminal, and bars of so many columns. */
#ifndef LM_BASE_COLUMNS_H
#define LM_BASE_COLUMNS_H

#include "base/str.h"

/* Columns that UTF-8 takes: two for a Chinese character, none for a mark that stands above or below its letter. A mark that
 * stands beside it (Burmese has many) takes one, as terminals and wcwidth(3) have it. Bytes that are no UTF-8 take none. */
unsigned lm_text_columns(const char *utf8);

/* As much of a text, in whole characters, as fits into so many columns, and blanks up to there. */
void lm_put_cell(lm_buf *out, const char *utf8, unsigned columns);

/* A bar of share x of `cells`, in eighths of a cell; one where x is more than nothing. */
void lm_put_bar(lm_buf *out, double x, unsigned cells);

#endif
