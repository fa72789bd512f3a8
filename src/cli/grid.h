/* grid.h - a table of texts with aligned columns. */
#ifndef LM_CLI_GRID_H
#define LM_CLI_GRID_H

#include "cli/store.h"
#include "lamina/buffer.h"

enum { LM_GRID_COLUMNS = 16 };

typedef struct lm_grid {
    lm_store   *store;           /* holds the cells */
    const char *align;           /* 'l' or 'r' per column, at most LM_GRID_COLUMNS */
    unsigned    indent;
    /* private; initially zero */
    const char **cells;
    size_t       rows, room;
    bool         failed;
} lm_grid;

/* Append a row of texts, which are copied. There must be at least as many texts as columns. Further ones are ignored, so that the same
 * calls fill a table with fewer columns. */
#define lm_grid_row(g, ...) \
    lm_grid_texts((g), (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
void lm_grid_texts(lm_grid *g, const char *const *texts, size_t n);

/* Append a line that spans all columns; "": an empty line. */
void lm_grid_line(lm_grid *g, const char *text);

/* Append the table to `out`, which is marked as failed if the grid has failed. */
void lm_grid_print(const lm_grid *g, lm_text *out);

#endif
