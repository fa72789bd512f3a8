/* columns.h - text in columns of a terminal. Not exported: the program includes it too
 * (tests/lint/rules_modules.py).
 *
 * Columns are those of UTF-8 text: two for a Chinese character, none for a combining mark, one for a spacing
 * mark (Burmese has many), as in terminals and wcwidth(3). Invalid bytes take none. Thread-safe on distinct
 * texts. */
#ifndef LM_BASE_COLUMNS_H
#define LM_BASE_COLUMNS_H

#include "base/str.h"

/* Return the columns of a text; 0 for NULL. */
unsigned lm_text_columns(const char *utf8);

/* Append text cut to `columns` in whole characters, and padded with spaces to `columns`. */
void lm_text_add_cell(lm_text *t, const char *utf8, unsigned columns);

/* Append a bar of x (0…1) times `cells` columns, in eighths of a column; at least one eighth if x is above
 * 0. */
void lm_text_add_bar(lm_text *t, double x, unsigned cells);

/* Append `text` in at least `width` columns, aligned left or right; append a piece n times. */
void lm_put(lm_text *out, const char *text, unsigned width);
void lm_put_right(lm_text *out, const char *text, unsigned width);
void lm_put_rule(lm_text *out, const char *piece, unsigned n);

#endif
