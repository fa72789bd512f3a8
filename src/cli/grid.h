/* grid.h - a table of texts in columns, for people. */
#ifndef LM_CLI_GRID_H
#define LM_CLI_GRID_H

#include "cli/store.h"
#include "lamina/buffer.h"

enum { LM_GRID_COLUMNS = 16 };

typedef struct lm_grid {
    lm_store   *store;           /* holds the cells */
    const char *align;           /* 'l' or 'r' for each column, at most LM_GRID_COLUMNS */
    unsigned    indent;
    /* its own; zero at first */
    const char **cells;
    size_t       rows, room;
    bool         failed;
} lm_grid;

/* A row of texts, copied. Fewer than there are columns are a mistake of ours; more are fine: a table that ends earlier is filled by
 * the same calls. */
#define lm_grid_row(g, ...) \
    lm_grid_texts((g), (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
void lm_grid_texts(lm_grid *g, const char *const *texts, size_t n);

/* A line of its own across all columns; "": an empty one. */
void lm_grid_line(lm_grid *g, const char *text);

/* Appended; `out` fails when the grid did. */
void lm_grid_print(const lm_grid *g, lm_text *out);

#endif
