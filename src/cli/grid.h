/* grid.h - a table of texts in columns, for people. */
#ifndef LM_CLI_GRID_H
#define LM_CLI_GRID_H

#include "base/arena.h"
#include "base/str.h"

enum { LM_GRID_COLUMNS = 16 };

typedef struct lm_grid {
    lm_arena   *arena;           /* holds the cells */
    const char *align;           /* 'l' or 'r' for each column, at most LM_GRID_COLUMNS */
    unsigned    indent;
    /* its own; zero at first */
    const char **cells;
    size_t       rows, room;
    bool         failed;
} lm_grid;

/* As many texts as there are columns; copied. */
void lm_grid_row(lm_grid *g, ...);

/* The same, from an array. */
void lm_grid_cells(lm_grid *g, const char *const *texts);

/* A line of its own across all columns; "": an empty one. */
void lm_grid_line(lm_grid *g, const char *text);

/* Appended; `out` fails when the grid did. */
void lm_grid_print(const lm_grid *g, lm_buf *out);

/* Columns that a UTF-8 text takes on a terminal. */
size_t lm_grid_width(const char *text);

#endif
