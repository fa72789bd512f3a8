/* columns.h - how wide a text is on a terminal. */
#ifndef LM_BASE_COLUMNS_H
#define LM_BASE_COLUMNS_H

/* Columns that UTF-8 takes: two for a Chinese character, none for a mark that stands above or below its letter. A mark that
 * stands beside it (Burmese has many) takes one, as terminals and wcwidth(3) have it. Bytes that are no UTF-8 take none. */
unsigned lm_text_columns(const char *utf8);

#endif
