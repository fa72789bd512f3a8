/* cell_table.c - rows are stored first and printed when the widths are known: a column is as wide as its
 * widest text. */
#include "cli/base/cell_table.h"

#include <assert.h>
#include <string.h>

#include "base/columns.h"

static unsigned columns_of(const lm_cell_table *g)
{
    return (unsigned)strlen(g->align);
}

static const char **new_row(lm_cell_table *g)
{
    unsigned n = columns_of(g);

    if (g->rows == g->capacity) {
        size_t       capacity  = g->capacity ? 2 * g->capacity : 32;
        const char **cells = lm_store_new(g->store, capacity * n, const char *);
        if (!cells) {
            g->failed = true;
            return NULL;
        }
        if (g->rows)
            memcpy(cells, g->cells, g->rows * n * sizeof *cells);
        g->cells = cells;
        g->capacity  = capacity;
    }
    return &g->cells[g->rows++ * n];
}

void lm_cell_table_texts(lm_cell_table *g, const char *const *texts, size_t n)
{
    assert(n >= columns_of(g));
    const char **row = new_row(g);

    for (unsigned i = 0; row && i < columns_of(g); i++) {
        row[i] = lm_store_strdup(g->store, texts[i]);
        g->failed |= !row[i];
    }
}

void lm_cell_table_line(lm_cell_table *g, const char *text)
{
    const char **row = new_row(g);

    if (row) {
        row[0] = NULL;
        row[1] = lm_store_strdup(g->store, text);
        g->failed |= !row[1];
    }
}

static void print_row(const lm_cell_table *g, const char *const *row, const size_t *width, lm_text *out)
{
    unsigned last = columns_of(g);

    while (last > 1 && !*row[last - 1])
        last--;                              /* print no blanks after the last text of a line */
    lm_text_printf(out, "%*s", (int)g->indent, "");
    for (unsigned i = 0; i < last; i++) {
        int pad = (int)(width[i] - lm_text_columns(row[i]));
        if (g->align[i] == 'r')
            lm_text_printf(out, "%s%*s%s", i ? "  " : "", pad, "", row[i]);
        else
            lm_text_printf(out, "%s%s%*s", i ? "  " : "", row[i], i + 1 < last ? pad : 0, "");
    }
    lm_text_add_char(out, '\n');
}

void lm_cell_table_print(const lm_cell_table *g, lm_text *out)
{
    size_t   width[LM_CELL_TABLE_COLUMNS] = { 0 };
    unsigned n = columns_of(g);

    out->failed |= g->failed;
    if (g->failed)
        return;
    for (size_t r = 0; r < g->rows; r++)
        for (unsigned i = 0; g->cells[r * n] && i < n; i++) {
            size_t w = lm_text_columns(g->cells[r * n + i]);
            width[i] = w > width[i] ? w : width[i];
        }
    for (size_t r = 0; r < g->rows; r++) {
        if (g->cells[r * n])
            print_row(g, &g->cells[r * n], width, out);
        else if (*g->cells[r * n + 1])
            lm_text_printf(out, "%*s%s\n", (int)g->indent, "", g->cells[r * n + 1]);
        else
            lm_text_add_char(out, '\n');
    }
}
