/* cell_table.h - a table of texts with aligned columns. */
#ifndef LM_CLI_CELL_TABLE_H
#define LM_CLI_CELL_TABLE_H

#include "cli/base/store.h"
#include "lamina/buffer.h"

enum { LM_CELL_TABLE_COLUMNS = 16 };

typedef struct lm_cell_table {
    lm_store   *store;           /* holds the cells */
    const char *align;           /* 'l' or 'r' per column, at most LM_CELL_TABLE_COLUMNS */
    unsigned    indent;
    /* private; initially zero */
    const char **cells;
    size_t       rows, capacity;
    bool         failed;
} lm_cell_table;

/* Append a row of texts, which are copied. There must be at least as many texts as columns. Further ones are
 * ignored, so that the same calls fill a table with fewer columns. */
#define lm_cell_table_row(g, ...) \
    lm_cell_table_texts((g), (const char *const[]){ __VA_ARGS__ }, \
                        sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
void lm_cell_table_texts(lm_cell_table *g, const char *const *texts, size_t n);

/* Append a line that spans all columns; "": an empty line. */
void lm_cell_table_line(lm_cell_table *g, const char *text);

/* Append the table to `out`, which is marked as failed if the table has failed. */
void lm_cell_table_print(const lm_cell_table *g, lm_text *out);

#endif
